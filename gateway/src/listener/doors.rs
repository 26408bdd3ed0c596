//! How many connections are open, in all and by address, and the word for one too many.
//!
//! A connection beyond the bounds is answered with 503 and closed at once, without being read: a
//! client behind a full accept queue would hang instead. The answer is written once and not waited
//! for.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpStream;

use crate::config::Connections;
use crate::errors::{Kind, Refusal};

/// Those who are in.
#[derive(Debug, Default)]
pub struct Doors {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: u64,
    /// Only of those addresses that have any.
    by_address: HashMap<IpAddr, u64>,
}

/// One who is in, until it is dropped.
#[derive(Debug)]
pub struct Inside {
    doors: Arc<Doors>,
    address: IpAddr,
}

impl Doors {
    /// Lets a connection from `address` in.
    ///
    /// # Errors
    /// Why not.
    pub fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        bounds: &Connections,
    ) -> Result<Inside, Refusal> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.all >= bounds.max {
            let message = format!(
                "this gateway has the {} connections that it may have: try again, or reuse one",
                bounds.max
            );
            return Err(Refusal::because(Kind::Connections, message));
        }
        let own = open.by_address.entry(address).or_default();
        if let Some(most) = bounds.per_address
            && *own >= most
        {
            let message =
                format!("your address has the {most} connections that it may have: reuse one");
            return Err(Refusal::because(Kind::Connections, message));
        }
        *own += 1;
        open.all += 1;
        Ok(Inside {
            doors: Arc::clone(self),
            address,
        })
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut open = self
            .doors
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.all = open.all.saturating_sub(1);
        if let Some(own) = open.by_address.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

/// Says why to a connection that is not let in. The kernel takes so few bytes at once.
pub(super) fn turn_away(tcp: &TcpStream, refusal: &Refusal) {
    let body = refusal.body();
    let mut answer = format!(
        "HTTP/1.1 {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n",
        refusal.status(),
        body.len()
    )
    .into_bytes();
    for (name, value) in refusal.headers() {
        answer.extend_from_slice(name.as_str().as_bytes());
        answer.extend_from_slice(b": ");
        answer.extend_from_slice(value.as_bytes());
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"\r\n");
    answer.extend_from_slice(&body);
    let _ = tcp.try_write(&answer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_in_than_may_and_each_goes_out_once() {
        let doors = Arc::new(Doors::default());
        let bounds = Connections {
            max: 3,
            per_address: Some(2),
        };
        let [a, b]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        let first = doors.enter(a, &bounds).unwrap();
        let _second = doors.enter(a, &bounds).unwrap();
        assert!(doors.enter(a, &bounds).is_err());
        let _third = doors.enter(b, &bounds).unwrap();
        assert!(doors.enter(b, &bounds).is_err());
        drop(first);
        assert_eq!(doors.open(), 2);
        drop(doors.enter(a, &bounds).unwrap());
        assert_eq!(doors.open.lock().unwrap().by_address.len(), 2);
    }
}
