//! Which process is the engine.
//!
//! Named by its id, by a part of its command line, or found as the owner of the socket that
//! listens where the engine's URL points. Of several processes that fit, those that descend from
//! another one that fits are its workers; if more than one is left, the candidates are named and
//! none is chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use procfs::net::{TcpNetEntry, TcpState, tcp, tcp6};
use procfs::process::{FDTarget, Process, all_processes};

/// Candidates named at most.
const SHOWN: usize = 5;

/// Characters of a command line that are shown.
const COMMAND_CHARS: usize = 60;

/// Holds ports for others and computes nothing.
const PROXIES: [&str; 2] = ["docker-proxy", "rootlesskit"];

/// The process whose command line holds `text`.
///
/// # Errors
/// When there is none or more than one.
pub fn by_name(text: &str) -> Result<u32, String> {
    let own = std::process::id();
    let fits: BTreeSet<u32> = all_processes()
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|p| p.pid().unsigned_abs() != own)
        .filter(|p| {
            p.cmdline()
                .is_ok_and(|words| words.join(" ").contains(text))
        })
        .map(|p| p.pid().unsigned_abs())
        .collect();
    // Whoever started this process, a shell above all, has the text in its command line too.
    let above = ancestors(own);
    let fits: BTreeSet<u32> = fits.difference(&above).copied().collect();
    match only(&fits) {
        Some(pid) => Ok(pid),
        None if fits.is_empty() => Err(
            "no command line holds this text; give more of it right, or name the process by engine.pid"
                .to_owned(),
        ),
        None => Err(format!(
            "fits more than one process: {}; give more of the command line, or name one by engine.pid",
            shown(&fits)
        )),
    }
}

/// The process that listens at one of these addresses, if they are of this host.
///
/// # Errors
/// Why none can be named: a foreign host, no permission, several.
pub fn by_address(addresses: &[SocketAddr]) -> Result<u32, String> {
    let local: Vec<SocketAddr> = addresses
        .iter()
        .copied()
        .filter(|a| is_local(a.ip()))
        .collect();
    let Some(first) = local.first() else {
        let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        return Err(format!("{} is on another host", all.join(", ")));
    };
    let sockets: BTreeSet<u64> = [tcp(), tcp6()]
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.state == TcpState::Listen)
        .filter(|entry| local.iter().any(|a| covers(entry, *a)))
        .map(|entry| entry.inode)
        .collect();
    if sockets.is_empty() {
        return Err(format!(
            "nothing listens at {first} in this network namespace; name the process by engine.pid"
        ));
    }
    let mut hidden = false;
    let owners: BTreeSet<u32> = all_processes()
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|p| match p.fd() {
            Ok(mut open) => open.any(
                |fd| matches!(fd.map(|fd| fd.target), Ok(FDTarget::Socket(i)) if sockets.contains(&i)),
            ),
            Err(_) => {
                hidden = true;
                false
            }
        })
        .map(|p| p.pid().unsigned_abs())
        .collect();
    match only(&owners) {
        Some(pid) => match name_of(pid) {
            Some(name) if PROXIES.contains(&name.as_str()) => Err(format!(
                "{first} is held by {name} for a container; name the engine's process by engine.pid or engine.process"
            )),
            _ => Ok(pid),
        },
        None if owners.is_empty() && hidden => Err(format!(
            "whose socket listens at {first} may not be seen; run loadgen as the engine's user, or name the process by engine.pid"
        )),
        None if owners.is_empty() => Err(format!(
            "no process of this namespace holds the socket at {first}; name it by engine.pid"
        )),
        None => Err(format!(
            "several processes listen at {first}: {}; name one by engine.pid",
            shown(&owners)
        )),
    }
}

/// Whether an address is one of this host's: only then can a socket be bound to it.
fn is_local(ip: IpAddr) -> bool {
    !ip.is_unspecified() && UdpSocket::bind((ip, 0)).is_ok()
}

/// Whether a connection to `address` would end up at this socket.
fn covers(entry: &TcpNetEntry, address: SocketAddr) -> bool {
    let at = entry.local_address;
    at.port() == address.port()
        && (at.ip().to_canonical() == address.ip().to_canonical()
            || at.ip().is_unspecified() && (at.is_ipv6() || address.is_ipv4()))
}

/// The one process that is left when descendants of others are taken away.
fn only(fits: &BTreeSet<u32>) -> Option<u32> {
    let roots: Vec<u32> = fits
        .iter()
        .copied()
        .filter(|&pid| ancestors(pid).is_disjoint(fits))
        .collect();
    match roots.as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

/// Processes above one, itself left out.
fn ancestors(pid: u32) -> BTreeSet<u32> {
    let mut above = BTreeSet::new();
    let mut at = i32::try_from(pid).ok();
    while let Some(parent) = at.and_then(super::stat_of).map(|s| s.ppid) {
        if parent <= 0 || !above.insert(parent.unsigned_abs()) {
            break;
        }
        at = Some(parent);
    }
    above
}

fn shown(pids: &BTreeSet<u32>) -> String {
    let mut all: BTreeMap<u32, String> = BTreeMap::new();
    for &pid in pids.iter().take(SHOWN) {
        all.insert(pid, command_of(pid));
    }
    let mut text: Vec<String> = all
        .iter()
        .map(|(pid, command)| format!("{pid} ({command})"))
        .collect();
    if pids.len() > SHOWN {
        text.push(format!("{} more", pids.len() - SHOWN));
    }
    text.join(", ")
}

/// The short name of a process that can be seen.
#[must_use]
pub fn name_of(pid: u32) -> Option<String> {
    let stat = super::stat_of(i32::try_from(pid).ok()?)?;
    Some(stat.comm)
}

/// The command line's beginning. Arguments may be secret, so only the first two words are said:
/// the program, and the script or subcommand that an interpreter runs.
#[must_use]
pub fn command_of(pid: u32) -> String {
    let words = i32::try_from(pid)
        .ok()
        .and_then(|pid| Process::new(pid).and_then(|p| p.cmdline()).ok())
        .unwrap_or_default();
    if words.is_empty() {
        return name_of(pid).unwrap_or_else(|| "ended".to_owned());
    }
    let text: Vec<&str> = words.iter().take(2).map(String::as_str).collect();
    text.join(" ").chars().take(COMMAND_CHARS).collect()
}
