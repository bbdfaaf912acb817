//! The settings that libcufile reads, for what it does not tell: JSON with comments.

use serde_json::Value;

/// What `CUFILE_ENV_PATH_JSON` names, or `/etc/cufile.json`; `None` where there is none that can be read.
pub fn read() -> Option<Value> {
    let path = std::env::var("CUFILE_ENV_PATH_JSON").unwrap_or_else(|_| "/etc/cufile.json".to_owned());
    parse(&std::fs::read_to_string(path).ok()?)
}

pub fn parse(text: &str) -> Option<Value> {
    let bare: String = text.lines().map(|line| line.split_once("//").map_or(line, |(before, _)| before)).collect();
    serde_json::from_str(&bare).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_part_of_the_settings() {
        let text = "{ // a comment\n \"execution\": {\n  // threads\n  \"max_io_threads\": 4 } }";
        assert_eq!(parse(text).unwrap()["execution"]["max_io_threads"], 4);
        assert!(parse("{").is_none());
    }
}
