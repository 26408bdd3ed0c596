//! Commands, flags and their help.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::usage::{By, Format};
use crate::config::{Endpoint, SecretRef};

/// Environment variable that holds the hashing secret, unless another place is named.
const DEFAULT_SECRET: &str = "env:INFERSCOPE_KEY_SECRET";

/// A front door for OpenAI-compatible engines that changes no byte and stamps every chunk.
#[derive(Debug, Parser)]
#[command(
    name = "inferscope-gateway",
    version,
    disable_help_subcommand = true,
    after_help = "Examples:
  inferscope-gateway run --upstream http://127.0.0.1:8000 --no-auth
  inferscope-gateway check -c configs/gateway.yaml && inferscope-gateway run -c configs/gateway.yaml
  inferscope-gateway keys new --tenant research --secret file:/etc/inferscope/key-secret

Exit codes: 0 done, 1 failed while running, 2 command line, configuration, port or path."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve until SIGTERM or SIGINT; running streams finish first
    #[command(after_help = "Examples:
  inferscope-gateway run -c configs/gateway.yaml
  inferscope-gateway run --upstream http://127.0.0.1:8000 --listen 127.0.0.1:8080 --no-auth \\
      --metrics 127.0.0.1:9090 --admin 127.0.0.1:9091 --records records.jsonl --hash

When it listens, one JSON line on standard output says where:
  {\"ready\":true,\"data\":[\"127.0.0.1:8080\"],\"metrics\":\"127.0.0.1:9090\",\"admin\":\"127.0.0.1:9091\"}")]
    Run(Run),
    /// Check a configuration without serving: all its problems, or a summary
    Check {
        /// The configuration
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Say what becomes of a request: who it is, what limits it, where it goes
    #[command(after_help = "Examples:
  inferscope-gateway explain -c configs/gateway.yaml --key-id example --model small
  inferscope-gateway explain -c gateway.yaml --key-id laptop --model small --path /v1/embeddings --json")]
    Explain {
        /// The configuration
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
        /// The key's id; leave it out where `auth.mode` is none
        #[arg(long, value_name = "ID")]
        key_id: Option<String>,
        /// The model that the request names
        #[arg(long, value_name = "NAME")]
        model: Option<String>,
        /// The request's path
        #[arg(long, value_name = "PATH", default_value = "/v1/chat/completions")]
        path: String,
        /// JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Sum up what was used, from record files
    #[command(subcommand)]
    Usage(UsageCommand),
    /// Make API keys and the secret that their hashes are keyed with
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The configuration
    #[arg(short, long, value_name = "FILE", required_unless_present = "upstream")]
    pub config: Option<PathBuf>,
    /// Instead of a configuration: the one engine, which gets every model
    #[arg(long, value_name = "URL", conflicts_with = "config", value_parser = Endpoint::parse)]
    pub upstream: Option<Endpoint>,
    /// Data port; port 0 picks a free one
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:8080",
        conflicts_with = "config"
    )]
    pub listen: SocketAddr,
    /// Let everyone in; has to be said with --upstream
    #[arg(long, conflicts_with = "config")]
    pub no_auth: bool,
    /// Serve /metrics, /livez and /readyz here
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    pub metrics: Option<SocketAddr>,
    /// Serve /status and /records here, on loopback
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    pub admin: Option<SocketAddr>,
    /// Write a record per request to this file
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub records: Option<PathBuf>,
    /// Put SHA-256 of both directions of each answer into its record
    #[arg(long, conflicts_with = "config")]
    pub hash: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum UsageCommand {
    /// Requests and tokens by day and tenant, or by more
    #[command(after_help = "Examples:
  inferscope-gateway usage export --records /var/log/inferscope/records.jsonl
  inferscope-gateway usage export --records records.jsonl --by month,tenant,model --format json
  inferscope-gateway usage export --records records.jsonl --since 2026-12-01 --until 2026-12-31

Rotated files beside the named one are read, too. Days are those of UTC.")]
    Export(UsageExport),
}

#[derive(Debug, Args)]
pub(super) struct UsageExport {
    /// The record file: what `records.file.path` says
    #[arg(long, value_name = "FILE")]
    pub records: PathBuf,
    /// What rows are told apart by
    #[arg(
        long,
        value_name = "COLUMN,…",
        value_delimiter = ',',
        default_value = "day,tenant"
    )]
    pub by: Vec<By>,
    /// First day, YYYY-MM-DD
    #[arg(long, value_name = "DAY", value_parser = day)]
    pub since: Option<String>,
    /// Last day, YYYY-MM-DD
    #[arg(long, value_name = "DAY", value_parser = day)]
    pub until: Option<String>,
    /// How rows are written
    #[arg(long, value_enum, default_value = "csv")]
    pub format: Format,
}

fn day(text: &str) -> Result<String, String> {
    let day: jiff::civil::Date = text
        .parse()
        .map_err(|_| format!("\"{text}\" is no day: write YYYY-MM-DD"))?;
    Ok(day.to_string())
}

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Make a key: printed once on the first line, then the YAML to paste
    #[command(
        after_help = "Example, with a new secret file (mode 0600) if there is none:
  inferscope-gateway keys new --tenant research --secret file:/etc/inferscope/key-secret"
    )]
    New {
        /// Whose key it is
        #[arg(long, value_name = "NAME", value_parser = name)]
        tenant: String,
        /// Name of the key in records and logs; made up unless given
        #[arg(long, value_name = "ID", value_parser = name)]
        id: Option<String>,
        /// The `auth.secret` of the configuration: env:NAME, or file:/path (made if absent)
        #[arg(long, value_name = "REF", default_value = DEFAULT_SECRET, value_parser = SecretRef::parse)]
        secret: SecretRef,
    },
    /// Make a secret for `auth.secret` and print it
    Secret,
}

fn name(text: &str) -> Result<String, String> {
    crate::config::check_name(text).map(|()| text.to_owned())
}
