//! The machine's own apt sources, pointed at another suite of the same distribution.
//!
//! Both forms are understood: deb822 (`*.sources`) and one line an entry (`*.list`). Only the distribution itself is kept: entries with
//! the component «main» and a suite that is the release's own name. Security, updates and other parties' packages stay out, since they
//! have no such suite or would change what a test sees.

/// What apt is to fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Binaries,
    Sources,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Binaries => "deb",
            Self::Sources => "deb-src",
        }
    }
}

const COMPONENT: &str = "main";
/// Names that a Debian machine may use in place of its release's.
const ALIASES: [&str; 5] = ["oldstable", "stable", "testing", "unstable", "sid"];

/// A deb822 text with the entries of the distribution named `codename`, each for `suite` alone; empty where there are none.
pub(crate) fn deb822(text: &str, codename: &str, suite: &str, kind: Kind) -> String {
    let mut kept = String::new();
    for paragraph in paragraphs(text) {
        let value = |name: &str| paragraph.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map_or("", |field| &field.value);
        let has = |name: &str, word: &str| value(name).split_whitespace().any(|known| known == word);
        let disabled = ["no", "false", "0"].contains(&value("Enabled").trim());
        let ours = value("Suites").split_whitespace().any(|known| is_distribution(known, codename));
        if disabled || !ours || !has("Components", COMPONENT) || !has("Types", "deb") {
            continue;
        }
        for field in &paragraph {
            let value = match field.name.to_ascii_lowercase().as_str() {
                "suites" => suite,
                "types" => kind.word(),
                "components" => COMPONENT,
                _ => &field.value,
            };
            kept.push_str(&format!("{}: {}\n", field.name, value.trim_start_matches(' ')));
        }
        kept.push('\n');
    }
    kept
}

/// The same for a text with one entry a line.
pub(crate) fn one_line(text: &str, codename: &str, suite: &str, kind: Kind) -> String {
    let entries = text.lines().filter_map(|line| {
        let line = line.split('#').next()?.trim();
        let rest = line.strip_prefix("deb")?;
        let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']').map(|(options, rest)| (format!("[{options}] "), rest))?,
            None => (String::new(), rest),
        };
        let mut words = rest.split_whitespace();
        let (uri, named) = (words.next()?, words.next()?);
        let ours = is_distribution(named, codename) && words.any(|word| word == COMPONENT);
        ours.then(|| format!("{} {options}{uri} {suite} {COMPONENT}\n", kind.word()))
    });
    entries.collect()
}

fn is_distribution(suite: &str, codename: &str) -> bool {
    suite == codename || ALIASES.contains(&suite)
}

struct Field {
    name: String,
    /// With its continuation lines (a key in `Signed-By`), as they were.
    value: String,
}

fn paragraphs(text: &str) -> Vec<Vec<Field>> {
    let mut paragraphs = vec![Vec::<Field>::new()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields = match paragraphs.last_mut() {
            Some(fields) if !line.trim().is_empty() => fields,
            _ => {
                paragraphs.push(Vec::new());
                continue;
            }
        };
        if line.starts_with([' ', '\t']) {
            if let Some(field) = fields.last_mut() {
                field.value.push('\n');
                field.value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push(Field { name: name.trim().to_owned(), value: value.to_owned() });
        }
    }
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deb822_file_keeps_the_distribution_and_drops_security_and_strangers() {
        let text = "Types: deb\n# a comment\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates\nComponents: main contrib\n\
                    Signed-By:\n -----BEGIN\n .\n -----END\n\n\
                    Types: deb\nURIs: http://mirror.test/security\nSuites: bookworm-security\nComponents: main\n\n\
                    Types: deb\nURIs: http://stranger.test\nSuites: nodistro\nComponents: main\n\n\
                    Enabled: no\nTypes: deb\nURIs: http://off.test\nSuites: bookworm\nComponents: main\n";
        assert_eq!(
            deb822(text, "bookworm", "trixie", Kind::Binaries),
            "Types: deb\nURIs: http://mirror.test/debian\nSuites: trixie\nComponents: main\nSigned-By: \n -----BEGIN\n .\n -----END\n\n"
        );
        assert!(deb822(text, "bookworm", "sid", Kind::Sources).starts_with("Types: deb-src\n"));
    }

    #[test]
    fn a_one_line_file_keeps_options_and_drops_security_and_strangers() {
        let text = "# deb http://off.test bookworm main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://mirror.test/debian bookworm main contrib # ours\n\
                    deb-src http://mirror.test/debian bookworm main\n\
                    deb http://mirror.test/security bookworm-security main\n\
                    deb https://docker.test/debian bookworm stable\n\
                    deb http://mirror.test/debian stable main\n";
        assert_eq!(
            one_line(text, "bookworm", "sid", Kind::Sources),
            "deb-src [arch=amd64 signed-by=/k.gpg] http://mirror.test/debian sid main\ndeb-src http://mirror.test/debian sid main\n"
        );
    }
}
