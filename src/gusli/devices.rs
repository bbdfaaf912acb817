//! Devices as users name them: `gusli_device=` entries, the lines of a configuration file, and plain paths; and how the library is told of them.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Bytes that the library keeps of an id, of an address and of a cookie; longer ones run over in it.
const LONGEST_ID: usize = 15;
pub const LONGEST_PATH: usize = 63;
const LONGEST_COOKIE: usize = 15;
/// Bytes of a configuration that the library can read.
pub const LONGEST_CONFIG: usize = 1023;
/// What stands for a cookie where nobody asks for one: the field must not be empty.
const NO_COOKIE: &str = "-";

/// What a device is, by the library's letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Kernel,
    Server,
    /// Fails every I/O, for tests.
    Failing,
    /// Never ends an I/O, for tests.
    Stuck,
}

impl Kind {
    const ALL: [(char, Self); 5] = [('F', Self::File), ('K', Self::Kernel), ('N', Self::Server), ('x', Self::Failing), ('s', Self::Stuck)];

    fn parse(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(letter, _)| text.strip_prefix(*letter) == Some(""));
        found.map(|(_, kind)| *kind).ok_or_else(|| format!("{text} is no type of device: use F, K or N (x and s are for tests)"))
    }

    pub fn letter(self) -> char {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or('?', |(letter, _)| *letter)
    }

    /// Whether the device is something that this machine can open under its path.
    pub fn is_local(self) -> bool {
        matches!(self, Self::File | Self::Kernel)
    }

    /// Whether it is one of the library's own, which have nothing behind them.
    pub fn is_dummy(self) -> bool {
        matches!(self, Self::Failing | Self::Stuck)
    }
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// As the user named it; a plain path has none.
    pub id: Option<String>,
    pub kind: Kind,
    /// A path, or a server's address.
    pub path: String,
    pub cookie: String,
    /// Where on the device a file of the job starts, in bytes.
    pub offset: u64,
    /// Whether the library is to go past the page cache.
    pub is_direct: bool,
}

impl Device {
    /// The file or kernel block device at a path that a job names.
    pub fn at(path: &str, is_direct: bool) -> Self {
        let is_block = std::fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device());
        let kind = if is_block { Kind::Kernel } else { Kind::File };
        Self { id: None, kind, path: path.to_owned(), cookie: NO_COOKIE.to_owned(), offset: 0, is_direct }
    }

    /// A device that nothing is read from or written to.
    pub fn keeper() -> Self {
        Self { id: None, kind: Kind::Failing, path: "-".to_owned(), cookie: NO_COOKIE.to_owned(), offset: 0, is_direct: false }
    }

    /// Whether fio can treat it as the file that it is named by.
    pub fn is_plain(&self, name: &str) -> bool {
        self.kind.is_local() && self.offset == 0 && self.path == name
    }

    /// Whether both are one to the library.
    pub fn is_same(&self, other: &Self) -> bool {
        let of = |device: &Self| (device.kind, device.path.clone(), device.cookie.clone(), device.is_direct, device.id.clone());
        of(self) == of(other)
    }

    fn parse(entry: &str) -> Result<Self, String> {
        let parts: Vec<&str> = entry.split(':').map(str::trim).collect();
        let (id, kind, path, rest) = match parts[..] {
            [id, kind, path, ref rest @ ..] if rest.len() <= 2 => (id, kind, path, rest),
            _ => return Err(format!("{entry} is not id:type:path, id:type:path:cookie or id:type:path:cookie:offset")),
        };
        let offset = rest.get(1).map_or(Ok(0), |text| text.parse().map_err(|_| format!("{entry}: {text} is no offset in bytes")))?;
        let cookie = rest.first().copied().filter(|cookie| !cookie.is_empty()).unwrap_or(NO_COOKIE);
        let device = Self {
            id: Some(id.to_owned()),
            kind: Kind::parse(kind).map_err(|why| format!("{entry}: {why}"))?,
            path: path.to_owned(),
            cookie: cookie.to_owned(),
            offset,
            is_direct: false,
        };
        device.check().map_err(|why| format!("{entry}: {why}"))?;
        Ok(device)
    }

    /// What would break the configuration or run over in the library.
    fn check(&self) -> Result<(), String> {
        let id = self.id.as_deref().unwrap_or("-");
        for (what, text, most) in
            [("an id", id, LONGEST_ID), ("a path", self.path.as_str(), usize::MAX), ("a cookie", self.cookie.as_str(), LONGEST_COOKIE)]
        {
            if text.is_empty() || text.len() > most {
                let most = if most == usize::MAX { String::new() } else { format!(" of {most} bytes at most") };
                return Err(format!("«{text}» cannot be used: give {what}{most}"));
            }
            if what != "a path" && !fits_a_line(text) {
                return Err(format!("«{text}» cannot be used: {what} has no blank, no '#', and only ASCII"));
            }
        }
        if self.kind == Kind::Server && (self.path.len() > LONGEST_PATH || !fits_a_line(&self.path)) {
            return Err(format!(
                "«{}» cannot be used: a server's address has {LONGEST_PATH} bytes at most, no blank and no '#'",
                self.path
            ));
        }
        if self.kind == Kind::Server && !self.path.starts_with(['/', 't', 'u']) {
            return Err(format!("«{}» is no server's address: use /path of a Unix socket, tIP or uIP", self.path));
        }
        Ok(())
    }

    /// Whether the library can take the path as it is.
    pub fn path_fits(&self) -> bool {
        self.path.len() <= LONGEST_PATH && fits_a_line(&self.path)
    }

    /// Its line in the configuration, by the id and the path that it has there.
    pub fn line(&self, id: &str, path: &str) -> String {
        let direct = if self.is_direct { 'D' } else { 'N' };
        format!("{id} {} W {direct} {path} {}\n", self.kind.letter(), self.cookie)
    }
}

/// The value of `gusli_device=`.
pub fn parse_list(text: &str) -> Result<Vec<Device>, String> {
    let devices: Vec<Device> = text.split(',').map(|entry| Device::parse(entry.trim())).collect::<Result<_, _>>()?;
    check_ids(&devices)?;
    Ok(devices)
}

/// The content of a configuration file, of the only version that there is: the library aborts the process for another.
pub fn parse_config(text: &str) -> Result<Vec<Device>, String> {
    if text.len() > LONGEST_CONFIG {
        return Err(format!("it has {} bytes, and the library reads {LONGEST_CONFIG} at most: leave out remarks, or devices", text.len()));
    }
    let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty());
    match lines.next() {
        Some("version=1") => {}
        first => return Err(format!("its first line is {:?} where version=1 is expected", first.unwrap_or_default())),
    }
    let parse = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [id, kind, _how, direct, path, cookie] => {
            let mut device = Device::parse(&format!("{id}:{kind}:{path}:{cookie}"))?;
            device.is_direct = matches!(direct, "D" | "d");
            Ok(device)
        }
        _ => Err(format!("«{line}» is not «id type how direct path cookie»")),
    };
    let devices: Vec<Device> = lines.map(parse).collect::<Result<_, _>>()?;
    check_ids(&devices)?;
    Ok(devices)
}

fn check_ids(devices: &[Device]) -> Result<(), String> {
    let twice = devices.iter().enumerate().find(|(n, device)| devices[..*n].iter().any(|other| other.id == device.id));
    twice.map_or(Ok(()), |(_, device)| Err(format!("the id {} is there twice", device.id.as_deref().unwrap_or_default())))
}

fn fits_a_line(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

/// The configuration for a list of devices; it starts with the remark by which the library knows it from a path.
pub fn config(lines: &[String]) -> Result<String, String> {
    let text = format!("# \nversion=1\n{}", lines.concat());
    if text.len() > LONGEST_CONFIG {
        return Err(format!(
            "{} devices need a configuration of {} bytes, and the library reads {LONGEST_CONFIG} at most: use fewer devices in a run, shorter \
             paths, or separate processes (thread=0)",
            lines.len(),
            text.len()
        ));
    }
    Ok(text)
}

/// Bytes of a file or block device.
pub fn size(path: &str) -> std::io::Result<u64> {
    use std::io::Seek;
    // The end of a block device is where a seek to it lands, with no call of its own.
    std::fs::File::open(Path::new(path))?.seek(std::io::SeekFrom::End(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_three_to_five_parts() {
        let device = |text| Device::parse(text).unwrap();
        let plain = device("11:F:./store0.bin");
        assert_eq!((plain.id.as_deref(), plain.kind, plain.path.as_str(), plain.offset), (Some("11"), Kind::File, "./store0.bin", 0));
        assert_eq!(device("20:N:t127.0.0.1:sec=0x3").cookie, "sec=0x3");
        assert_eq!(device("14:K:/dev/nvme0n1:sec:4096").offset, 4096);
        for bad in
            ["", "11", "11:F", "a:b:c:d:e:f", "11:Q:/x", "11:FF:/x", ":F:/x", "11:F:", "0123456789abcdef:F:/x", "a b:F:/x", "1:N:host"]
        {
            assert!(Device::parse(bad).is_err(), "{bad}");
        }
        assert!(Device::parse("1:N:/x:0123456789abcdef").unwrap_err().contains("15 bytes"));
    }

    #[test]
    fn a_list_and_a_file_name_the_same_devices() {
        let list = parse_list("a:F:/tmp/f, b:N:/tmp/socket:sec").unwrap();
        let file = parse_config("# Config\nversion=1\n# id, type\na F W N /tmp/f -\nb N W N /tmp/socket sec # a server\n").unwrap();
        assert_eq!(list, file);
        assert!(parse_list("a:F:/x,a:F:/y").unwrap_err().contains("twice"));
        assert!(parse_config("version=2\n").unwrap_err().contains("version=1"));
        assert!(parse_config(&"#".repeat(1024)).unwrap_err().contains("1023"));
    }

    #[test]
    fn a_configuration_that_is_too_long_is_refused_with_its_size() {
        let lines: Vec<String> = (0..20).map(|n| Device::at(&"x".repeat(60), true).line(&format!("g{n}"), &"x".repeat(60))).collect();
        assert!(config(&lines).unwrap_err().contains("20 devices need a configuration of 14"));
        assert_eq!(config(&lines[..1]).unwrap(), format!("# \nversion=1\ng0 F W D {} -\n", "x".repeat(60)));
    }
}
