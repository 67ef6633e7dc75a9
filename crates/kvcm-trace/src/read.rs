//! Reading a trace file line by line.

use std::io::{BufRead, Read};

use serde_json::{Map, Value};

use crate::{MAX_HASH_ID, ReadError, Request};

/// The longest line that is read: about 100 times the longest prompt of today.
const LINE_LIMIT: usize = 4 << 20;

/// Reads requests from JSON lines: `timestamp` (ms), `input_length`, `output_length` (tokens),
/// `hash_ids`. Other fields are ignored, empty lines are skipped.
///
/// Holds one line at a time. After an error of the file itself it ends; after a bad line it goes
/// on with the next.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: u64,
    buffer: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// A reader at the start of `input`.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: 0,
            buffer: Vec::new(),
            ended: false,
        }
    }

    /// Reads the next line into the buffer; false at the end of the file.
    fn read_line(&mut self) -> Result<bool, ReadError> {
        self.buffer.clear();
        self.line += 1;
        let limit = LINE_LIMIT as u64 + 1;
        let read = (&mut self.input)
            .take(limit)
            .read_until(b'\n', &mut self.buffer);
        match read {
            Err(source) => Err(ReadError::Io {
                line: self.line,
                source,
            }),
            Ok(length) if length > LINE_LIMIT => Err(ReadError::TooLong {
                line: self.line,
                limit: LINE_LIMIT,
            }),
            Ok(length) => Ok(length > 0),
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Request, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.read_line() {
                Ok(false) => self.ended = true,
                Ok(true) => {
                    let text = self.buffer.trim_ascii();
                    if !text.is_empty() {
                        return Some(parse(self.line, text));
                    }
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

fn parse(line: u64, text: &[u8]) -> Result<Request, ReadError> {
    let object = match serde_json::from_slice(text) {
        Ok(Value::Object(object)) => object,
        Ok(other) => {
            let reason = format!("it is {}", kind(&other));
            return Err(ReadError::NotAnObject { line, reason });
        }
        Err(error) => {
            // It counts lines too, and would say "line 1" of every line.
            let text = error.to_string();
            let what = text.split(" at line ").next().unwrap_or_default();
            let reason = format!("{what} at column {}", error.column());
            return Err(ReadError::NotAnObject { line, reason });
        }
    };
    let number = |field| {
        let wrong = |reason| ReadError::Field {
            line,
            field,
            reason,
        };
        whole(required(&object, field).map_err(wrong)?).map_err(wrong)
    };
    Ok(Request {
        at_ms: number("timestamp")?,
        input_tokens: number("input_length")?,
        output_tokens: number("output_length")?,
        hash_ids: hash_ids(&object).map_err(|reason| ReadError::Field {
            line,
            field: "hash_ids",
            reason,
        })?,
    })
}

fn hash_ids(object: &Map<String, Value>) -> Result<Vec<u64>, String> {
    let value = required(object, "hash_ids")?;
    let Value::Array(values) = value else {
        return Err(format!("needs a list of numbers, and is {}", kind(value)));
    };
    let mut ids = Vec::with_capacity(values.len());
    for (place, value) in values.iter().enumerate() {
        let id = whole(value).map_err(|reason| format!("entry {place}: {reason}"))?;
        if id > MAX_HASH_ID {
            return Err(format!("entry {place}: {id} is above {MAX_HASH_ID}"));
        }
        ids.push(id);
    }
    Ok(ids)
}

fn required<'a>(object: &'a Map<String, Value>, field: &str) -> Result<&'a Value, String> {
    object.get(field).ok_or_else(|| "is missing".to_owned())
}

/// A whole number that is not negative; `3.0` is one, some tools write it so.
fn whole(value: &Value) -> Result<u64, String> {
    if let Some(number) = value.as_u64() {
        return Ok(number);
    }
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && (0.0..=MAX_HASH_ID as f64).contains(&number) => {
            Ok(number as u64)
        }
        Some(_) => Err(format!("needs a whole number from 0, and is {value}")),
        None => Err(format!(
            "needs a whole number from 0, and is {}",
            kind(value)
        )),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<Result<Request, String>> {
        Reader::new(text.as_bytes())
            .map(|line| line.map_err(|error| error.to_string()))
            .collect()
    }

    #[test]
    fn lines_become_requests_and_empty_lines_are_skipped() {
        let text = "\n{\"timestamp\": 27482, \"input_length\": 690, \"output_length\": 52.0, \
                    \"hash_ids\": [0, 46], \"other\": null}\r\n\n";
        let request = Request {
            at_ms: 27482,
            input_tokens: 690,
            output_tokens: 52,
            hash_ids: vec![0, 46],
        };
        assert_eq!(read(text), [Ok(request)]);
        assert_eq!(read(""), []);
    }

    #[test]
    fn a_bad_line_is_named_with_its_field_and_the_next_is_read() {
        let good = r#"{"timestamp":1,"input_length":2,"output_length":3,"hash_ids":[4]}"#;
        for (bad, message) in [
            (
                "{",
                "line 2: not a JSON object: EOF while parsing an object at column 1",
            ),
            ("[1]", "line 2: not a JSON object: it is a list"),
            (
                r#"{"timestamp":1,"input_length":2,"hash_ids":[4]}"#,
                "line 2: field `output_length`: is missing",
            ),
            (
                r#"{"timestamp":"1","input_length":2,"output_length":3,"hash_ids":[4]}"#,
                "line 2: field `timestamp`: needs a whole number from 0, and is a text",
            ),
            (
                r#"{"timestamp":1,"input_length":-2,"output_length":3,"hash_ids":[4]}"#,
                "line 2: field `input_length`: needs a whole number from 0, and is -2",
            ),
            (
                r#"{"timestamp":1,"input_length":2,"output_length":3,"hash_ids":[4,0.5]}"#,
                "line 2: field `hash_ids`: entry 1: needs a whole number from 0, and is 0.5",
            ),
            (
                r#"{"timestamp":1,"input_length":2,"output_length":3,"hash_ids":[9007199254740992]}"#,
                "line 2: field `hash_ids`: entry 0: 9007199254740992 is above 9007199254740991",
            ),
            (
                r#"{"timestamp":1,"input_length":2,"output_length":3,"hash_ids":7}"#,
                "line 2: field `hash_ids`: needs a list of numbers, and is a number",
            ),
        ] {
            let lines = read(&format!("{good}\n{bad}\n{good}\n"));
            assert_eq!(lines.len(), 3, "{bad}");
            assert!(lines[0].is_ok() && lines[2].is_ok(), "{bad}");
            let error = lines[1].clone().unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_and_not_collected() {
        let endless = Reader::new(io::BufReader::new(io::repeat(b'x')));
        let lines: Vec<_> = endless.collect();
        assert_eq!(lines.len(), 1);
        assert!(matches!(lines[0], Err(ReadError::TooLong { line: 1, .. })));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            parts in prop::collection::vec(
                (any::<u64>(), any::<u64>(), any::<u64>(), prop::collection::vec(0..=MAX_HASH_ID, 0..9)),
                0..9,
            ),
        ) {
            let requests: Vec<_> = parts
                .into_iter()
                .map(|(at_ms, input_tokens, output_tokens, hash_ids)| Request {
                    at_ms, input_tokens, output_tokens, hash_ids,
                })
                .collect();
            let mut text = String::new();
            for request in &requests {
                text.push_str(&serde_json::to_string(request).unwrap());
                text.push('\n');
            }
            let back: Vec<_> = read(&text).into_iter().map(Result::unwrap).collect();
            prop_assert_eq!(back, requests);
        }

        #[test]
        fn no_input_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _count = Reader::new(text.as_slice()).count();
        }
    }
}
