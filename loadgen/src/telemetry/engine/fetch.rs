//! One page over HTTP, waited for on the calling thread.
//!
//! Sampling must not pass through the measuring thread and its connections, so it has the few
//! lines of HTTP that it needs: HTTP/1.0, whose answers end with their connection and are not
//! chunked. Time and size are bounded.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::client::target::Target;

/// Time for one page, from connecting to its last byte.
const LIMIT: Duration = Duration::from_secs(5);

/// Bytes of one page, head included.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The body of `path`.
///
/// # Errors
/// Why there is none: no connection, time or size over the limit, another status than 200.
pub fn page(target: &Target, path: &str, bearer: Option<&str>) -> Result<Vec<u8>, String> {
    let until = Instant::now() + LIMIT;
    let rest = || {
        let rest = until.saturating_duration_since(Instant::now());
        let slow = || format!("no whole answer within {} s", LIMIT.as_secs());
        (!rest.is_zero()).then_some(rest).ok_or_else(slow)
    };
    let mut stream = connect(target, rest()?)?;
    let mut request = format!(
        "GET {path} HTTP/1.0\r\nHost: {}\r\nAccept: text/plain\r\nAccept-Encoding: identity\r\n",
        target.host_header()
    );
    if let Some(key) = bearer {
        request.push_str(&format!("Authorization: Bearer {key}\r\n"));
    }
    request.push_str("\r\n");
    let broken = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            format!("no whole answer within {} s", LIMIT.as_secs())
        }
        _ => e.to_string(),
    };
    stream.set_write_timeout(Some(rest()?)).map_err(broken)?;
    stream.write_all(request.as_bytes()).map_err(broken)?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        stream.set_read_timeout(Some(rest()?)).map_err(broken)?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(broken(e)),
        }
        if answer.len() as u64 > MAX_BYTES {
            return Err(format!(
                "more than {MAX_BYTES} bytes; that is no metrics page"
            ));
        }
        if is_whole(&answer) {
            break;
        }
    }
    body(answer)
}

fn connect(target: &Target, limit: Duration) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = target
        .address()
        .to_socket_addrs()
        .map_err(|e| e.to_string())?
        .collect();
    let mut last = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e.to_string(),
        }
    }
    Err(last)
}

/// Where the head ends and the body begins.
fn head_end(answer: &[u8]) -> Option<usize> {
    memchr::memmem::find(answer, b"\r\n\r\n").map(|at| at + 4)
}

/// Value of a header, by its name in lower case.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim().eq_ignore_ascii_case(name)).then(|| value.trim())
    })
}

fn length(head: &str) -> Option<usize> {
    header(head, "content-length")?.parse().ok()
}

/// A server may keep the connection open all the same once it has stated the length.
fn is_whole(answer: &[u8]) -> bool {
    let Some(start) = head_end(answer) else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..start]);
    length(&head).is_some_and(|n| answer.len() - start >= n)
}

fn body(mut answer: Vec<u8>) -> Result<Vec<u8>, String> {
    let start = head_end(&answer).ok_or("the answer has no whole HTTP head")?;
    let head = String::from_utf8_lossy(&answer[..start]).into_owned();
    let status = head
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split_whitespace().nth(1))
        .ok_or("the answer is not HTTP/1")?;
    if status != "200" {
        return Err(format!("answers {status}"));
    }
    if header(&head, "transfer-encoding").is_some() {
        return Err("answers chunked to HTTP/1.0".to_owned());
    }
    if let Some(n) = length(&head) {
        if answer.len() - start < n {
            return Err(format!("ended after {} of {n} bytes", answer.len() - start));
        }
        answer.truncate(start + n);
    }
    Ok(answer.split_off(start))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Answers one request with these bytes.
    fn served(answer: &'static [u8]) -> (Target, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(answer).unwrap();
            String::from_utf8(request).unwrap()
        });
        (target, server)
    }

    fn asked(answer: &'static [u8]) -> Result<Vec<u8>, String> {
        let (target, server) = served(answer);
        let got = page(&target, "/metrics", Some("k"));
        let request = server.join().unwrap();
        assert!(
            request.starts_with("GET /metrics HTTP/1.0\r\n"),
            "{request}"
        );
        assert!(request.contains("Authorization: Bearer k\r\n"));
        got
    }

    #[test]
    fn a_page_ends_with_its_length_or_its_connection() {
        let page = asked(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na 1ignored");
        assert_eq!(page, Ok(b"a 1".to_vec()));
        assert_eq!(
            asked(b"HTTP/1.0 200 OK\r\n\r\na 2\n"),
            Ok(b"a 2\n".to_vec())
        );
    }

    #[test]
    fn what_is_no_page_is_said() {
        for (answer, says) in [
            (&b"HTTP/1.1 404 Not Found\r\n\r\n"[..], "answers 404"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", "1 of 9"),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "chunked",
            ),
            (b"SSH-2.0-x\r\n\r\n", "not HTTP/1"),
            (b"", "no whole HTTP head"),
        ] {
            let error = asked(answer).unwrap_err();
            assert!(error.contains(says), "{says}: {error}");
        }
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let target = Target::parse(&format!("http://{free}")).unwrap();
        let error = page(&target, "/metrics", None).unwrap_err();
        assert!(error.to_lowercase().contains("refused"), "{error}");
    }
}
