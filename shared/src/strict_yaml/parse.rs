//! Text to nodes, on the event stream of the YAML parser.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::node::Kind;
use super::{Node, Position, Problems};

/// Deepest nesting taken; no configuration comes near it, and recursion stays bounded.
const MAX_DEPTH: usize = 32;

/// Reads one document. Faults go to `problems`; `None` when nothing useful could be read.
pub fn parse(text: &str, problems: &mut Problems) -> Option<Node> {
    let mut builder = Builder {
        events: Parser::new_from_str(text),
        problems,
    };
    match builder.document() {
        Ok(Some(node)) => Some(node),
        Ok(None) => {
            let start = Position { line: 1, col: 1 };
            builder.problems.push(start, "", "the file is empty");
            None
        }
        Err(Stop::Syntax(e)) => {
            let at = Position {
                line: e.marker().line(),
                col: e.marker().col() + 1,
            };
            problems.push(at, "", format!("not valid YAML: {}", e.info()));
            None
        }
        Err(Stop::TooDeep(at)) => {
            problems.push(at, "", format!("nested more than {MAX_DEPTH} levels deep"));
            None
        }
    }
}

enum Stop {
    Syntax(ScanError),
    TooDeep(Position),
}

struct Builder<'t, 'p> {
    events: Parser<'t, saphyr_parser::StrInput<'t>>,
    problems: &'p mut Problems,
}

impl<'t> Builder<'t, '_> {
    /// The first document; a second one is a fault.
    fn document(&mut self) -> Result<Option<Node>, Stop> {
        let mut root = None;
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(root),
                Event::StreamStart
                | Event::Nothing
                | Event::DocumentStart(_)
                | Event::DocumentEnd => {}
                other if root.is_some() => {
                    self.problems
                        .push(at, "", "a second document in one file; keep one");
                    self.value(other, at, String::new(), 0)?;
                }
                other => root = Some(self.value(other, at, String::new(), 0)?),
            }
        }
    }

    fn value(
        &mut self,
        event: Event<'t>,
        at: Position,
        path: String,
        depth: usize,
    ) -> Result<Node, Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::TooDeep(at));
        }
        let (kind, tagged) = match event {
            Event::Scalar(text, style, _, tag) => (
                Kind::Scalar {
                    text: text.into_owned(),
                    plain: style == ScalarStyle::Plain,
                },
                tag.is_some(),
            ),
            Event::SequenceStart(_, tag) => (self.items(&path, depth)?, tag.is_some()),
            Event::MappingStart(_, tag) => (self.entries(&path, depth)?, tag.is_some()),
            Event::Alias(_) => {
                self.problems.push(
                    at,
                    path.clone(),
                    "aliases are not supported; write the value out",
                );
                (
                    Kind::Scalar {
                        text: String::new(),
                        plain: true,
                    },
                    false,
                )
            }
            _ => (
                Kind::Scalar {
                    text: String::new(),
                    plain: true,
                },
                false,
            ),
        };
        if tagged {
            self.problems
                .push(at, path.clone(), "tags are not supported; remove it");
        }
        Ok(Node { at, path, kind })
    }

    fn items(&mut self, path: &str, depth: usize) -> Result<Kind, Stop> {
        let mut items = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Kind::Seq(items));
            }
            let path = format!("{path}[{}]", items.len());
            items.push(self.value(event, at, path, depth + 1)?);
        }
    }

    fn entries(&mut self, path: &str, depth: usize) -> Result<Kind, Stop> {
        let mut entries: Vec<(String, Position, Node)> = Vec::new();
        loop {
            let (event, key_at) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Kind::Map(entries)),
                Event::Scalar(text, ..) => text.into_owned(),
                other => {
                    self.value(other, key_at, path.to_owned(), depth + 1)?;
                    self.problems
                        .push(key_at, path, "a key must be a plain word");
                    String::new()
                }
            };
            let (event, at) = self.next()?;
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            let node = self.value(event, at, path, depth + 1)?;
            match entries.iter().find(|(name, ..)| *name == key) {
                Some((_, first, _)) => {
                    let message = format!(
                        "\"{key}\" is given twice; the first is on line {}",
                        first.line
                    );
                    self.problems.push(key_at, node.path, message);
                }
                None => entries.push((key, key_at, node)),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Position), Stop> {
        match self.events.next_event() {
            Some(Ok((event, span))) => Ok((event, position(span))),
            Some(Err(e)) => Err(Stop::Syntax(e)),
            None => Ok((Event::StreamEnd, Position { line: 1, col: 1 })),
        }
    }
}

/// The parser counts lines from one and columns from zero.
fn position(span: Span) -> Position {
    Position {
        line: span.start.line(),
        col: span.start.col() + 1,
    }
}
