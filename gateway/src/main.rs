//! The `inferscope-gateway` binary; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    inferscope_gateway::cli::main()
}
