//! Text tables for terminals.

/// A column of a table, with its title.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// To the left.
    Text(&'static str),
    /// To the right.
    Number(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Text(title) | Self::Number(title) => title,
        }
    }

    fn lay(self, cell: &str, width: usize) -> String {
        match self {
            Self::Text(_) => format!("{cell:<width$}"),
            Self::Number(_) => format!("{cell:>width$}"),
        }
    }
}

/// Lays out `rows`, which have a cell for each column, with two spaces between columns. The line
/// of titles is left out when there are none.
pub(crate) fn table<const N: usize>(columns: [Column; N], rows: &[[String; N]]) -> String {
    let titles = columns.map(|column| column.title().to_owned());
    let has_titles = titles.iter().any(|title| !title.is_empty());
    let lines = || std::iter::once(&titles).chain(rows);
    let mut text = String::new();
    for line in lines().skip(usize::from(!has_titles)) {
        let cells = columns
            .iter()
            .zip(line)
            .enumerate()
            .map(|(place, (column, cell))| {
                let width = lines().map(|line| line[place].chars().count()).max();
                column.lay(cell, width.unwrap_or(0))
            });
        let cells: Vec<_> = cells.collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// `12345678` as `12,345,678`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `part` of `whole` as a percentage; `-` of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_left_and_numbers_right() {
        let rows = [["steady", "1,000"], ["all", "9"]].map(|row| row.map(str::to_owned));
        let columns = [Column::Text("phase"), Column::Number("n")];
        assert_eq!(
            table(columns, &rows),
            "phase       n\nsteady  1,000\nall         9\n"
        );
        let columns = [Column::Text(""), Column::Text("")];
        assert_eq!(table(columns, &rows), "steady  1,000\nall     9\n");
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(
            [0, 999, 1000, 1234567].map(thousands),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(0, 0), "-");
    }
}
