use clap::CommandFactory as _;
use clap::Parser as _;

use super::*;
use crate::config::Auth;

fn run_args(args: &[&str]) -> Result<Config, String> {
    let words = ["inferscope-gateway", "run"].iter().chain(args);
    match Cli::try_parse_from(words) {
        Err(error) => Err(error.to_string()),
        Ok(Cli {
            command: Command::Run(run),
        }) => run_config(run).map_err(|failure| failure.to_string()),
        Ok(other) => panic!("{other:?}"),
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn help_shows_commands_examples_and_exit_codes() {
    let help = Cli::command().term_width(100).render_help().to_string();
    insta::assert_snapshot!("help", help);
    let mut command = Cli::command().term_width(100);
    let run = command.find_subcommand_mut("run").unwrap();
    insta::assert_snapshot!("help_run", run.render_help().to_string());
}

#[test]
fn a_first_try_needs_an_engine_and_no_auth_said_aloud() {
    let config = run_args(&[
        "--upstream",
        "http://127.0.0.1:8000/base",
        "--listen",
        "127.0.0.1:0",
        "--no-auth",
        "--admin",
        "127.0.0.1:0",
        "--hash",
    ])
    .unwrap();
    assert!(matches!(config.auth, Auth::None));
    assert_eq!(config.pools["default"].endpoints[0].base_path, "/base");
    assert!(config.models.is_empty() && config.records.hash);

    let refused = |args: &[&str]| run_args(args).unwrap_err();
    insta::assert_snapshot!(refused(&["--upstream", "http://127.0.0.1:8000"]), @"error: --upstream lets everyone in: say so with --no-auth, or use -c FILE with keys");
    insta::assert_snapshot!(refused(&["--upstream", "http://127.0.0.1:8000", "--no-auth", "--admin", "0.0.0.0:1"]), @"error: --admin 0.0.0.0:1 can be reached from outside: use 127.0.0.1, or -c FILE with admin.token");
    assert!(refused(&[]).contains("--config <FILE>"));
    assert!(refused(&["-c", "x", "--upstream", "http://e"]).contains("cannot be used with"));
    assert!(refused(&["--upstream", "e:1"]).contains("write http://HOST:PORT"));
}

#[test]
fn a_new_key_gets_in_with_the_yaml_that_came_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    let secret = crate::config::SecretRef::File(path.clone());
    let text = keys::new("research", Some("laptop".into()), &secret).unwrap();
    let (key, yaml) = text.split_once('\n').unwrap();
    let config = Config::parse(
        "t.yaml",
        &format!("version: 1\nlisten: [{{addr: '127.0.0.1:0'}}]\npools: {{p: {{endpoints: [{{url: 'http://e'}}]}}}}\n{yaml}"),
    )
    .unwrap();
    let mut headers = http::HeaderMap::new();
    headers.insert("x-api-key", key.parse().unwrap());
    let principal = crate::auth::Authenticator::new(&config)
        .authenticate(&headers)
        .unwrap();
    assert_eq!(
        (principal.tenant.as_str(), principal.key_id.as_str()),
        ("research", "laptop")
    );

    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = keys::new("research", None, &secret).unwrap();
    assert_ne!(again.lines().next(), text.lines().next());
}

#[test]
fn a_key_without_a_secret_says_how_to_get_one() {
    let secret = crate::config::SecretRef::Env("INFERSCOPE_NOT_SET_ANYWHERE".into());
    insta::assert_snapshot!(keys::new("t", None, &secret).unwrap_err(), @"the environment variable INFERSCOPE_NOT_SET_ANYWHERE is not set: export it; `inferscope-gateway keys secret` makes one");
}

#[test]
fn faults_of_the_configuration_exit_with_2_and_failures_with_1() {
    let config = Config::load("/nonexistent".as_ref()).unwrap_err();
    assert_eq!(Failure::Config(config).code(), 2);
    let bind = ServeError::Bind {
        addr: "127.0.0.1:1".parse().unwrap(),
        cause: io::ErrorKind::AddrInUse.into(),
    };
    assert_eq!(Failure::Serve(bind).code(), 2);
    let start = ServeError::Start {
        what: "start the worker threads",
        cause: io::ErrorKind::WouldBlock.into(),
        remedy: "raise the limits",
    };
    assert_eq!(Failure::Serve(start).code(), 1);
}
