//! The notations of the protocol's section 3: integers, strings, bytes, lists and maps, read from a borrowed body and
//! appended to a vector. Everything is big-endian.

use std::net::{IpAddr, SocketAddr};

/// The body does not say what its opcode promises. Goes to the peer as a PROTOCOL error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("The message ends before its {0}")]
    Truncated(&'static str),
    #[error("The {0} is not valid UTF-8")]
    NotUtf8(&'static str),
    #[error("{what} {value} is unknown")]
    Unknown { what: &'static str, value: i64 },
    #[error("{0}")]
    Invalid(String),
}

/// A cursor over a body.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Truncated(what))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Truncated(what))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// `[short]`
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }

    /// `[int]`
    pub fn i32(&mut self, what: &'static str) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array(what)?))
    }

    /// `[long]`
    pub fn i64(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array(what)?))
    }

    /// An `[int]` that counts things of at least `least` bytes each, so that a lie cannot size a buffer.
    pub fn count(&mut self, least: usize, what: &'static str) -> Result<usize, DecodeError> {
        let count = self.i32(what)?;
        if count < 0 || count as usize > self.0.len() / least.max(1) {
            return Err(DecodeError::Invalid(format!("The {what} is {count}, more than the message has")));
        }
        Ok(count as usize)
    }

    fn utf8(bytes: &'a [u8], what: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8(what))
    }

    /// `[string]`
    pub fn string(&mut self, what: &'static str) -> Result<&'a str, DecodeError> {
        Self::utf8(self.short_bytes(what)?, what)
    }

    /// `[long string]`
    pub fn long_string(&mut self, what: &'static str) -> Result<&'a str, DecodeError> {
        let len = self.i32(what)?;
        let len = usize::try_from(len).map_err(|_| DecodeError::Truncated(what))?;
        Self::utf8(self.take(len, what)?, what)
    }

    /// `[short bytes]`
    pub fn short_bytes(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.u16(what)?;
        self.take(len as usize, what)
    }

    /// `[bytes]`: a negative length is null.
    pub fn bytes(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        match usize::try_from(self.i32(what)?) {
            Ok(len) => self.take(len, what).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// `[string list]`
    pub fn string_list(&mut self, what: &'static str) -> Result<Vec<&'a str>, DecodeError> {
        let count = self.u16(what)?;
        (0..count).map(|_| self.string(what)).collect()
    }

    /// `[string map]`, in the order sent.
    pub fn string_map(&mut self, what: &'static str) -> Result<Vec<(&'a str, &'a str)>, DecodeError> {
        let count = self.u16(what)?;
        (0..count).map(|_| Ok((self.string(what)?, self.string(what)?))).collect()
    }

    /// `[bytes map]`, read over: custom payloads are for query handlers that we do not have.
    pub fn skip_bytes_map(&mut self, what: &'static str) -> Result<(), DecodeError> {
        for _ in 0..self.u16(what)? {
            self.short_bytes(what)?;
            self.bytes(what)?;
        }
        Ok(())
    }

    /// `[inet]`: an address and a port.
    pub fn inet(&mut self, what: &'static str) -> Result<SocketAddr, DecodeError> {
        let ip = match self.u8(what)? {
            4 => IpAddr::from(self.array::<4>(what)?),
            16 => IpAddr::from(self.array::<16>(what)?),
            size => return Err(DecodeError::Unknown { what: "The size of an address", value: size as i64 }),
        };
        let port = self.i32(what)?;
        let port = u16::try_from(port).map_err(|_| DecodeError::Unknown { what: "The port", value: port as i64 })?;
        Ok(SocketAddr::new(ip, port))
    }
}

/// Longest `[string]`: its length is 16 bits.
pub const STRING_MAX: usize = u16::MAX as usize;

pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn put_i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// `[string]`. A longer one than [`STRING_MAX`] is cut at a character's boundary: only messages and names come here.
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(STRING_MAX)];
    put_u16(out, text.len() as u16);
    out.extend_from_slice(text.as_bytes());
}

pub fn put_long_string(out: &mut Vec<u8>, text: &str) {
    put_i32(out, text.len() as i32);
    out.extend_from_slice(text.as_bytes());
}

/// `[short bytes]`: ids, of a few bytes.
pub fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= u16::MAX as usize);
    put_u16(out, bytes.len() as u16);
    out.extend_from_slice(bytes);
}

/// `[bytes]`, null if `None`.
pub fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_i32(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
        None => put_i32(out, -1),
    }
}

pub fn put_string_list<'s>(out: &mut Vec<u8>, list: impl ExactSizeIterator<Item = &'s str>) {
    put_u16(out, list.len() as u16);
    for text in list {
        put_string(out, text);
    }
}

pub fn put_string_map<'s>(out: &mut Vec<u8>, map: impl ExactSizeIterator<Item = (&'s str, &'s str)>) {
    put_u16(out, map.len() as u16);
    for (key, value) in map {
        put_string(out, key);
        put_string(out, value);
    }
}

pub fn put_inet(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(16);
            out.extend_from_slice(&ip.octets());
        }
    }
    put_i32(out, address.port() as i32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_round_trip() {
        let mut out = Vec::new();
        put_string(&mut out, "héllo");
        put_long_string(&mut out, "long");
        put_bytes(&mut out, None);
        put_bytes(&mut out, Some(b""));
        put_string_list(&mut out, ["a", "b"].into_iter());
        put_string_map(&mut out, [("k", "v")].into_iter());
        put_inet(&mut out, "10.0.0.1:9042".parse().unwrap());
        put_inet(&mut out, "[::1]:1".parse().unwrap());
        let mut reader = Reader::new(&out);
        assert_eq!(reader.string("s"), Ok("héllo"));
        assert_eq!(reader.long_string("s"), Ok("long"));
        assert_eq!(reader.bytes("b"), Ok(None));
        assert_eq!(reader.bytes("b"), Ok(Some(&b""[..])));
        assert_eq!(reader.string_list("l").unwrap(), ["a", "b"]);
        assert_eq!(reader.string_map("m").unwrap(), [("k", "v")]);
        assert_eq!(reader.inet("i").unwrap().to_string(), "10.0.0.1:9042");
        assert_eq!(reader.inet("i").unwrap().to_string(), "[::1]:1");
        assert!(reader.is_empty());
        assert_eq!(reader.u8("end"), Err(DecodeError::Truncated("end")));
    }

    #[test]
    fn lying_counts_are_refused() {
        assert!(Reader::new(&[0x7F, 0xFF, 0xFF, 0xFF, 0]).count(1, "count").is_err());
        assert!(Reader::new(&[0xFF, 0xFF, 0xFF, 0xFF]).count(1, "count").is_err());
        let mut out = Vec::new();
        put_string(&mut out, &"é".repeat(40_000));
        assert_eq!(Reader::new(&out).string("s").unwrap().len(), STRING_MAX - 1);
    }
}
