//! The ports: data, metrics, admin.

use std::net::SocketAddr;

use inferscope_shared::strict_yaml::{Node, Problems};

use super::Secret;
use super::secret::secret;

/// What a client's FIN after its request means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HalfClose {
    /// The client has left: its work is stopped.
    Gone,
    /// The client still reads: only a reset or a failed write stops its work.
    Tolerate,
}

/// A data port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Where; port 0 picks a free one, which the ready line names.
    pub addr: SocketAddr,
    /// What a FIN means.
    pub half_close: HalfClose,
}

/// The admin port.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Where; loopback unless there is a token.
    pub addr: SocketAddr,
    /// What a caller shows as `Authorization: Bearer`.
    pub token: Option<Secret>,
}

pub(super) fn addr(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("\"{text}\" is not an address: write IP:PORT, such as 127.0.0.1:8080 or [::]:8080")
    })
}

pub(super) fn listen(node: &Node, problems: &mut Problems) -> Vec<Listen> {
    let before = problems.len();
    let ports = node.list(problems, |item, problems| {
        let mut map = item.map(problems)?;
        let addr = map
            .need("addr", "127.0.0.1:8080", problems)
            .and_then(|node| node.parsed(problems, addr));
        let words = [("gone", HalfClose::Gone), ("tolerate", HalfClose::Tolerate)];
        let half_close = map
            .one_of("half_close", problems, &words)
            .unwrap_or(HalfClose::Gone);
        map.not_in_this_version("tls", problems);
        map.finish(problems);
        let addr = addr?;
        Some(Listen { addr, half_close })
    });
    if ports.is_empty() && problems.len() == before {
        node.complain(problems, "give at least one `- addr: IP:PORT`");
    }
    for (i, port) in ports.iter().enumerate() {
        if port.addr.port() != 0 && ports[..i].iter().any(|p| p.addr == port.addr) {
            node.complain(problems, format!("{} is listed twice", port.addr));
        }
    }
    ports
}

/// No two ports may be one: a wildcard address is every address of its port.
pub(super) fn apart(
    root: &Node,
    data: &[Listen],
    inner: [(&'static str, Option<SocketAddr>); 2],
    problems: &mut Problems,
) {
    let same = |a: SocketAddr, b: SocketAddr| {
        let wild = a.ip().is_unspecified() || b.ip().is_unspecified();
        a.port() != 0 && a.port() == b.port() && (wild || a.ip() == b.ip())
    };
    let ports: Vec<(&str, SocketAddr)> = data
        .iter()
        .map(|port| ("listen", port.addr))
        .chain(
            inner
                .into_iter()
                .filter_map(|(name, addr)| Some((name, addr?))),
        )
        .collect();
    for (i, (name, addr)) in ports.iter().enumerate() {
        let earlier = ports[..i].iter().find(|(_, other)| same(*addr, *other));
        // Two data ports are complained of where they stand.
        if let Some((other, _)) =
            earlier.filter(|(other, _)| (*other, *name) != ("listen", "listen"))
        {
            root.complain(
                problems,
                format!(
                    "{name} and {other} would share port {}: give each its own",
                    addr.port()
                ),
            );
        }
    }
}

pub(super) fn metrics(node: &Node, problems: &mut Problems) -> Option<SocketAddr> {
    let mut map = node.map(problems)?;
    let addr = map
        .need("addr", "127.0.0.1:9090", problems)
        .and_then(|node| node.parsed(problems, addr));
    map.finish(problems);
    addr
}

pub(super) fn admin(node: &Node, problems: &mut Problems) -> Option<Admin> {
    let mut map = node.map(problems)?;
    let addr_node = map.need("addr", "127.0.0.1:9091", problems);
    let addr = addr_node.and_then(|node| node.parsed(problems, addr));
    let token_given = map.get("token");
    let token = token_given.and_then(|node| secret(node, problems));
    map.finish(problems);
    let addr = addr?;
    if let Some(node) = addr_node
        && !addr.ip().is_loopback()
        && token_given.is_none()
    {
        node.complain(
            problems,
            format!("{addr} can be reached from outside: listen on 127.0.0.1, or set `token`"),
        );
    }
    Some(Admin { addr, token })
}
