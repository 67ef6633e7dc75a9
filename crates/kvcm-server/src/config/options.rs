//! Rules of the keys whose values are words: what a row of the table does with its text.

use std::{
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use super::{LogFormat, LogLevel, Token};

/// `true` or `false`. The predecessor takes every other text for false; a slip of the pen then
/// switches something off unseen.
pub(super) fn flag(text: &str) -> Option<bool> {
    text.parse().ok()
}

/// An empty text is none.
pub(super) fn optional(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// What the name of a metric may begin with.
pub(super) fn metric_prefix(text: &str) -> Option<String> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let digit_first = text.starts_with(|c: char| c.is_ascii_digit());
    (text.chars().all(is_fine) && !digit_first && text.len() <= 64).then(|| text.to_owned())
}

/// A host name or address without scheme, port or path.
pub(super) fn is_host(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    if text.contains(':') {
        return inner.unwrap_or(text).parse::<Ipv6Addr>().is_ok();
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    !text.is_empty() && text.len() <= 253 && text.chars().all(allowed)
}

/// An address to listen on; IPv6 may stand in brackets.
pub(super) fn ip(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

/// The level behind the predecessor's number; its fatal and error are one level here.
pub(super) const fn level(number: u64) -> LogLevel {
    match number {
        1 | 2 => LogLevel::Error,
        3 => LogLevel::Warn,
        5 => LogLevel::Debug,
        _ => LogLevel::Info,
    }
}

/// The level behind the words of `KVCM_LOG_LEVEL`.
pub(super) fn level_word(text: &str) -> Option<LogLevel> {
    match text.to_ascii_uppercase().as_str() {
        "ERROR" => Some(LogLevel::Error),
        "WARN" => Some(LogLevel::Warn),
        "INFO" => Some(LogLevel::Info),
        "DEBUG" => Some(LogLevel::Debug),
        _ => None,
    }
}

/// `text` or `json`.
pub(super) fn format(text: &str) -> Option<LogFormat> {
    match text {
        "text" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        _ => None,
    }
}

/// Tokens, separated by commas; blanks around them do not count.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let is_token = |token: &str| {
        (1..=1024).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    text.split(',')
        .map(|token| {
            Some(token.trim())
                .filter(|token| is_token(token))
                .map(Token::new)
        })
        .collect()
}

/// A part of one, as millionths.
pub(super) fn millionths(text: &str) -> Option<u32> {
    let ratio: f64 = text.parse().ok()?;
    // Within the limits, the rounded product fits.
    (0.0..=1.0)
        .contains(&ratio)
        .then(|| (ratio * 1e6).round() as u32)
}

/// Milliseconds.
pub(super) const fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// A count; the tables' limits fit into 32 bits.
pub(super) fn count(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// A smaller count; the tables' limits fit.
pub(super) fn number(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// A port; the table's limit fits.
pub(super) fn port(value: u64) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
