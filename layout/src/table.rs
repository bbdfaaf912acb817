//! A layout table: its rows, its columns, and the tab-separated text it is kept in.

use std::{error::Error, fmt};

/// The two words that open the header line, before the versions.
const HEADER: [&str; 2] = ["struct", "field"];
/// How a field that a version does not have is written.
const ABSENT: &str = "-";

/// Every known layout of one architecture, oldest version first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    pub versions: Vec<String>,
    pub rows: Vec<Row>,
}

/// One field of one struct in every version: a byte offset, or a value for the pseudo-struct `const`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// fio's name of the struct, or `const`.
    pub group: String,
    /// fio's name of the field; `__sizeof__` is the size of the whole struct.
    pub field: String,
    /// As many as the table has versions; `None` where that version has no such field.
    pub values: Vec<Option<usize>>,
}

/// One version's values, in the order of a table's rows.
pub type Column = Vec<Option<usize>>;

impl Table {
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut lines = text.lines().enumerate();
        let header = lines.next().map_or("", |(_, line)| line);
        let mut words = header.split('\t');
        if [words.next(), words.next()] != HEADER.map(Some) {
            return Err(ParseError::new(1, "the header does not begin with «struct» and «field»"));
        }
        let versions: Vec<String> = words.map(str::to_owned).collect();
        let rows = lines
            .map(|(index, line)| Row::parse(line, versions.len()).map_err(|what| ParseError::new(index + 1, &what)))
            .collect::<Result<_, _>>()?;
        Ok(Self { versions, rows })
    }

    /// The same rows with no version at all.
    pub fn without_versions(&self) -> Self {
        let rows = self.rows.iter().map(|row| Row { values: Vec::new(), ..row.clone() }).collect();
        Self { versions: Vec::new(), rows }
    }

    /// The values of one version, in the order of the rows.
    pub fn column(&self, version: &str) -> Option<Column> {
        let index = self.versions.iter().position(|known| known == version)?;
        Some(self.rows.iter().map(|row| row.values[index]).collect())
    }

    /// Replaces a version's column, or puts a new one behind the newest.
    ///
    /// # Panics
    /// Where `column` is not as long as the table has rows.
    pub fn set_column(&mut self, version: &str, column: Column) {
        match self.versions.iter().position(|known| known == version) {
            None => self.push_column(version, column),
            Some(index) => {
                assert_eq!(column.len(), self.rows.len(), "a column has one value a row");
                for (row, value) in self.rows.iter_mut().zip(column) {
                    row.values[index] = value;
                }
            }
        }
    }

    /// Puts a column behind the newest, also where there is one of that version already.
    ///
    /// # Panics
    /// Where `column` is not as long as the table has rows.
    pub fn push_column(&mut self, version: &str, column: Column) {
        assert_eq!(column.len(), self.rows.len(), "a column has one value a row");
        self.versions.push(version.to_owned());
        for (row, value) in self.rows.iter_mut().zip(column) {
            row.values.push(value);
        }
    }
}

impl Row {
    fn parse(line: &str, versions: usize) -> Result<Self, String> {
        let mut words = line.split('\t');
        let (Some(group), Some(field)) = (words.next(), words.next()) else {
            return Err("a row needs a struct and a field".to_owned());
        };
        let values = words
            .map(|word| match word {
                ABSENT => Ok(None),
                _ => word.parse().map(Some).map_err(|_| format!("{group}.{field}: «{word}» is neither a number nor «{ABSENT}»")),
            })
            .collect::<Result<Vec<_>, _>>()?;
        if values.len() != versions {
            return Err(format!("{group}.{field}: {} values for {versions} versions", values.len()));
        }
        Ok(Self { group: group.to_owned(), field: field.to_owned(), values })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", HEADER.join("\t"))?;
        self.versions.iter().try_for_each(|version| write!(out, "\t{version}"))?;
        writeln!(out)?;
        for row in &self.rows {
            write!(out, "{}\t{}", row.group, row.field)?;
            for value in &row.values {
                match value {
                    Some(number) => write!(out, "\t{number}")?,
                    None => write!(out, "\t{ABSENT}")?,
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// What is wrong with a table's text, and in which line (from 1).
#[derive(Debug)]
pub struct ParseError {
    line: usize,
    what: String,
}

impl ParseError {
    fn new(line: usize, what: &str) -> Self {
        Self { line, what: what.to_owned() }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.what)
    }
}

impl Error for ParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "struct\tfield\t3.40\t3.41\nioengine_ops\tcancel\t112\t-\n";

    #[test]
    fn a_table_is_written_as_it_was_read() {
        assert_eq!(Table::parse(TEXT).expect("a valid table").to_string(), TEXT);
    }

    #[test]
    fn a_column_is_replaced_in_place_and_a_new_one_goes_last() {
        let mut table = Table::parse(TEXT).expect("a valid table");
        table.set_column("3.40", vec![Some(7)]);
        table.set_column("3.43", vec![None]);
        assert_eq!(table.versions, ["3.40", "3.41", "3.43"]);
        assert_eq!(table.rows[0].values, [Some(7), None, None]);
    }

    #[test]
    fn a_broken_row_is_refused_with_its_line_and_field() {
        let short = Table::parse("struct\tfield\t3.40\t3.41\nio_u\tfile\t32\n").expect_err("one value is missing");
        assert_eq!(short.to_string(), "line 2: io_u.file: 1 values for 2 versions");
        let word = Table::parse("struct\tfield\t3.40\nio_u\tfile\tx\n").expect_err("x is no number");
        assert_eq!(word.to_string(), "line 2: io_u.file: «x» is neither a number nor «-»");
    }
}
