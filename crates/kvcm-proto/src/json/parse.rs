//! JSON to messages.

use prost::{Message, Name};
use prost_reflect::{DeserializeOptions, DynamicMessage};
use serde_json::error::Category;

use super::{Error, pool};

/// Reads a message from the body of a request; see the module for what is accepted.
///
/// # Errors
/// An empty body, a body that is not one JSON value, a value that does not fit its field. The
/// message names the field, line and column.
pub fn from_json<M>(body: &[u8]) -> Result<M, Error>
where
    M: Message + Name + Default,
{
    let descriptor = pool::descriptor::<M>()?;
    if body.trim_ascii().is_empty() {
        return Err(Error::Empty);
    }
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let mut json = serde_json::Deserializer::from_slice(body);
    let mut track = serde_path_to_error::Track::new();
    let message = DynamicMessage::deserialize_with_options(
        descriptor,
        serde_path_to_error::Deserializer::new(&mut json, &mut track),
        &options,
    )
    .map_err(|source| match source.classify() {
        Category::Data => Error::Value {
            path: path(&track.path()),
            source,
        },
        Category::Io | Category::Syntax | Category::Eof => Error::Syntax(source),
    })?;
    json.end().map_err(Error::Syntax)?;
    message.transcode_to().map_err(|error| Error::Mapping {
        name: M::full_name(),
        source: Box::new(error),
    })
}

/// The path for people.
fn path(path: &serde_path_to_error::Path) -> String {
    if path.iter().next().is_none() {
        "the body".to_owned()
    } else {
        path.to_string()
    }
}
