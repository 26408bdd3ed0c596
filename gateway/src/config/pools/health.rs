//! How endpoints are watched, and which of them a request goes to.

use std::time::Duration;

use http::HeaderName;
use inferscope_shared::strict_yaml::{Map, Node, Problems};

use crate::routes::is_plain;

/// What an endpoint's load is measured in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Requests in flight.
    #[default]
    LeastRequests,
    /// Tokens that those may cost.
    LeastTokens,
}

/// Probes of endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthConfig {
    /// What is asked for.
    pub path: String,
    /// Time between probes of one endpoint.
    pub interval: Duration,
    /// Longest probe.
    pub timeout: Duration,
    /// Good probes in a row until an endpoint is in again.
    pub healthy_after: u32,
    /// Bad probes in a row until it is out.
    pub unhealthy_after: u32,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self {
            path: "/health".to_owned(),
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            healthy_after: 2,
            unhealthy_after: 3,
        }
    }
}

/// When failed requests put an endpoint out for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EjectionConfig {
    /// Failures in a row: connects and answers of 5xx, never 4xx.
    pub consecutive_failures: u32,
    /// How long the first time; twice as long each time after, up to five minutes.
    pub base_time: Duration,
    /// The most of a pool that may be out for this at a time, in percent; 0 turns it off.
    pub max_share_percent: u8,
}

impl Default for EjectionConfig {
    fn default() -> Self {
        Self {
            consecutive_failures: 5,
            base_time: Duration::from_secs(10),
            max_share_percent: 50,
        }
    }
}

/// How a pool chooses and watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choosing {
    /// What load is.
    pub policy: Policy,
    /// Requests with the same value of this header go to the same endpoint.
    pub affinity: Option<HeaderName>,
    /// Probes, if there are any.
    pub health: Option<HealthConfig>,
    /// Ejection.
    pub ejection: EjectionConfig,
    /// How long an endpoint that came back takes to get its full share.
    pub slow_start: Duration,
    /// How long a connection to an engine stays unused in the pool; less than the engine's own
    /// keep-alive (vLLM: 5 s), or requests meet connections that are being closed.
    pub idle: Duration,
    /// The age at which the address of a host name is looked up again.
    pub resolve: Duration,
}

impl Default for Choosing {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            affinity: None,
            health: None,
            ejection: EjectionConfig::default(),
            slow_start: Duration::ZERO,
            idle: Duration::from_secs(4),
            resolve: Duration::from_secs(5),
        }
    }
}

pub(super) fn choosing(map: &mut Map<'_>, problems: &mut Problems) -> Choosing {
    let defaults = Choosing::default();
    let policies = [
        ("least_requests", Policy::LeastRequests),
        ("least_tokens", Policy::LeastTokens),
    ];
    Choosing {
        policy: map
            .one_of("policy", problems, &policies)
            .unwrap_or_default(),
        affinity: map.read("affinity", problems, affinity),
        health: map.read("health", problems, health),
        ejection: map
            .read("ejection", problems, ejection)
            .unwrap_or(defaults.ejection),
        slow_start: map
            .duration("slow_start", problems)
            .unwrap_or(defaults.slow_start),
        idle: map.read("idle", problems, span).unwrap_or(defaults.idle),
        resolve: map
            .read("resolve", problems, span)
            .unwrap_or(defaults.resolve),
    }
}

fn affinity(node: &Node, problems: &mut Problems) -> Option<HeaderName> {
    let mut map = node.map(problems)?;
    let header = map.need("header", "x-session-id", problems);
    let header = header.and_then(|node| {
        node.parsed(problems, |text| {
            text.to_ascii_lowercase().parse().map_err(|_| {
                format!("\"{text}\" is no header name: write one such as x-session-id")
            })
        })
    });
    map.finish(problems);
    header
}

fn health(node: &Node, problems: &mut Problems) -> Option<HealthConfig> {
    let mut map = node.map(problems)?;
    let defaults = HealthConfig::default();
    let path = map.read("path", problems, |node, problems| {
        node.parsed(problems, |text| {
            if is_plain(text.as_bytes()) {
                Ok(text.to_owned())
            } else {
                Err("expected a plain path such as /health".to_owned())
            }
        })
    });
    let health = HealthConfig {
        path: path.unwrap_or(defaults.path),
        interval: map
            .read("interval", problems, span)
            .unwrap_or(defaults.interval),
        timeout: map
            .read("timeout", problems, span)
            .unwrap_or(defaults.timeout),
        healthy_after: times(&mut map, "healthy_after", defaults.healthy_after, problems),
        unhealthy_after: times(
            &mut map,
            "unhealthy_after",
            defaults.unhealthy_after,
            problems,
        ),
    };
    map.finish(problems);
    Some(health)
}

fn ejection(node: &Node, problems: &mut Problems) -> Option<EjectionConfig> {
    let mut map = node.map(problems)?;
    let defaults = EjectionConfig::default();
    let ejection = EjectionConfig {
        consecutive_failures: times(
            &mut map,
            "consecutive_failures",
            defaults.consecutive_failures,
            problems,
        ),
        base_time: map
            .read("base_time", problems, span)
            .unwrap_or(defaults.base_time),
        max_share_percent: map
            .read("max_share", problems, percent)
            .unwrap_or(defaults.max_share_percent),
    };
    map.finish(problems);
    Some(ejection)
}

fn percent(node: &Node, problems: &mut Problems) -> Option<u8> {
    node.parsed(problems, |text| {
        text.strip_suffix('%')
            .and_then(|number| number.parse().ok())
            .filter(|percent| *percent <= 100)
            .ok_or_else(|| format!("expected a share from 0% to 100%, found \"{text}\""))
    })
}

fn times(map: &mut Map<'_>, key: &'static str, default: u32, problems: &mut Problems) -> u32 {
    let Some(node) = map.get(key) else {
        return default;
    };
    match node.u64(problems).map(u32::try_from) {
        Some(Ok(n @ 1..)) => n,
        Some(_) => {
            node.complain(problems, "expected a whole number from 1 on");
            default
        }
        None => default,
    }
}

/// A time of at least a millisecond.
fn span(node: &Node, problems: &mut Problems) -> Option<Duration> {
    let span = node.duration(problems)?;
    if span < Duration::from_millis(1) {
        node.complain(problems, "expected at least 1ms");
        return None;
    }
    Some(span)
}

#[cfg(test)]
mod tests {
    use inferscope_shared::strict_yaml::parse;

    use super::*;

    fn read(text: &str) -> (Option<Choosing>, Problems) {
        let mut problems = Problems::new("t");
        let root = parse(text, &mut problems).unwrap();
        let mut map = root.map(&mut problems).unwrap();
        let choosing = choosing(&mut map, &mut problems);
        map.finish(&mut problems);
        (problems.is_empty().then_some(choosing), problems)
    }

    #[test]
    fn every_key_has_a_default() {
        assert_eq!(read("{}").0, Some(Choosing::default()));
        let choosing = read("health: {}").0.unwrap();
        assert_eq!(choosing.health, Some(HealthConfig::default()));
    }

    #[test]
    fn every_key_is_read() {
        let choosing = read(
            "policy: least_tokens
affinity: {header: X-Session-Id}
health: {path: /ready, interval: 1s, timeout: 100ms, healthy_after: 1, unhealthy_after: 4}
ejection: {consecutive_failures: 2, base_time: 3s, max_share: 20%}
slow_start: 30s
idle: 500ms
resolve: 1m
",
        )
        .0
        .unwrap();
        let seconds = Duration::from_secs;
        assert_eq!(
            choosing,
            Choosing {
                policy: Policy::LeastTokens,
                affinity: Some(HeaderName::from_static("x-session-id")),
                health: Some(HealthConfig {
                    path: "/ready".to_owned(),
                    interval: seconds(1),
                    timeout: Duration::from_millis(100),
                    healthy_after: 1,
                    unhealthy_after: 4,
                }),
                ejection: EjectionConfig {
                    consecutive_failures: 2,
                    base_time: seconds(3),
                    max_share_percent: 20,
                },
                slow_start: seconds(30),
                idle: Duration::from_millis(500),
                resolve: seconds(60),
            }
        );
    }

    #[test]
    fn every_fault_is_told() {
        let (_, problems) = read(
            "policy: random
affinity: {header: 'a b'}
health: {path: health?x, interval: 0ms, healthy_after: 0}
ejection: {max_share: half, base: 1s}
idle: 5
",
        );
        insta::assert_snapshot!(problems.to_string());
    }
}
