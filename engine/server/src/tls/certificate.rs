//! Who a certificate says that its owner is: its subject and its alternative names, of X.509 in DER (RFC 5280).
//!
//! The certificate was verified before. What is not understood is left out; nothing here decides whom to trust.

/// The subject as RFC 4514 writes it (`CN=name,O=organisation`), and each alternative name as `DNS=..`, `EMAIL=..` or
/// `URI=..`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CertificateNames {
    pub subject: String,
    pub alternative: Vec<String>,
}

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
/// Optional parts of a certificate before and behind its plain ones.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// 2.5.29.17, `subjectAltName`.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// The next element's tag and content; what is behind it stays in `bytes`.
fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&[tag, first], mut rest) = bytes.split_first_chunk::<2>()?;
    let mut len = usize::from(first);
    if first & 0x80 != 0 {
        let (digits, behind) =
            rest.split_at_checked(usize::from(first & 0x7f)).filter(|(digits, _)| digits.len() <= 4)?;
        len = digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit));
        rest = behind;
    }
    let (content, behind) = rest.split_at_checked(len)?;
    *bytes = behind;
    Some((tag, content))
}

fn expect<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    next(bytes).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}

/// `None` for what is no certificate.
pub(crate) fn names_of(der: &[u8]) -> Option<CertificateNames> {
    let mut rest = der;
    let mut certificate = expect(&mut rest, SEQUENCE)?;
    let mut body = expect(&mut certificate, SEQUENCE)?;
    if body.first() == Some(&VERSION) {
        next(&mut body)?;
    }
    // Serial number, signature, issuer, validity.
    for _ in 0..4 {
        next(&mut body)?;
    }
    let subject = subject(expect(&mut body, SEQUENCE)?)?;
    let mut names = CertificateNames { subject, alternative: Vec::new() };
    while let Some((tag, mut content)) = next(&mut body) {
        if tag == EXTENSIONS {
            names.alternative = alternative(expect(&mut content, SEQUENCE)?).unwrap_or_default();
        }
    }
    Some(names)
}

/// A list of sets of attributes, the most general first; written the other way round.
fn subject(mut parts: &[u8]) -> Option<String> {
    let mut written = Vec::new();
    while let Some((_, mut part)) = next(&mut parts) {
        let mut attribute = expect(&mut part, SEQUENCE)?;
        let name = attribute_name(expect(&mut attribute, OBJECT_IDENTIFIER)?);
        let (_, value) = next(&mut attribute)?;
        written.push(format!("{name}={}", escaped(&String::from_utf8_lossy(value))));
    }
    written.reverse();
    Some(written.join(","))
}

/// The short names of RFC 4514, section 3, and the address that certificates of people have.
fn attribute_name(oid: &[u8]) -> String {
    let known = match oid {
        [0x55, 0x04, 0x03] => "CN",
        [0x55, 0x04, 0x06] => "C",
        [0x55, 0x04, 0x07] => "L",
        [0x55, 0x04, 0x08] => "ST",
        [0x55, 0x04, 0x09] => "STREET",
        [0x55, 0x04, 0x0a] => "O",
        [0x55, 0x04, 0x0b] => "OU",
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01] => "EMAIL",
        _ => return dotted(oid),
    };
    known.to_string()
}

fn dotted(oid: &[u8]) -> String {
    let mut numbers: Vec<u64> = Vec::new();
    let mut number = 0u64;
    for byte in oid {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            match numbers.is_empty() {
                true => numbers.extend([(number / 40).min(2), number - 40 * (number / 40).min(2)]),
                false => numbers.push(number),
            }
            number = 0;
        }
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// A comma in a name must not look like the beginning of another attribute.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn alternative(mut extensions: &[u8]) -> Option<Vec<String>> {
    while let Some((_, mut extension)) = next(&mut extensions) {
        if expect(&mut extension, OBJECT_IDENTIFIER)? != ALTERNATIVE_NAMES {
            continue;
        }
        // "Critical" may stand between.
        let (mut tag, mut value) = next(&mut extension)?;
        if tag != OCTET_STRING {
            (tag, value) = next(&mut extension)?;
        }
        let mut names = (tag == OCTET_STRING).then(|| expect(&mut value, SEQUENCE)).flatten()?;
        let mut found = Vec::new();
        while let Some((tag, name)) = next(&mut names) {
            let kind = match tag {
                0x81 => "EMAIL",
                0x82 => "DNS",
                0x86 => "URI",
                _ => continue,
            };
            found.push(format!("{kind}={}", String::from_utf8_lossy(name)));
        }
        return Some(found);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An element with a length of one byte.
    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, content.len() as u8], content].concat()
    }

    fn attribute(oid: &[u8], value: &str) -> Vec<u8> {
        let pair = [element(OBJECT_IDENTIFIER, oid), element(0x0c, value.as_bytes())].concat();
        element(0x31, &element(SEQUENCE, &pair))
    }

    fn certificate(subject: &[u8], extensions: &[u8]) -> Vec<u8> {
        let body = [
            element(VERSION, &[2, 1, 2]),
            element(2, &[7]),
            element(SEQUENCE, &[]),
            element(SEQUENCE, &[]),
            element(SEQUENCE, &[]),
            element(SEQUENCE, subject),
            element(SEQUENCE, &[]),
            element(EXTENSIONS, &element(SEQUENCE, extensions)),
        ];
        element(SEQUENCE, &element(SEQUENCE, &body.concat()))
    }

    #[test]
    fn names_are_read() {
        let subject = [attribute(&[0x55, 4, 10], "Us, the others"), attribute(&[0x55, 4, 3], "bob")].concat();
        let names = element(SEQUENCE, &[element(0x82, b"db.example"), element(0x87, &[1, 2, 3, 4])].concat());
        let extension = [element(OBJECT_IDENTIFIER, ALTERNATIVE_NAMES), element(1, &[255]), element(4, &names)];
        let read = names_of(&certificate(&subject, &element(SEQUENCE, &extension.concat()))).unwrap();
        assert_eq!(read.subject, "CN=bob,O=Us\\, the others");
        assert_eq!(read.alternative, ["DNS=db.example"]);
        assert_eq!(dotted(&[0x2a, 0x86, 0x48]), "1.2.840");
    }

    #[test]
    fn what_is_cut_off_is_no_certificate() {
        let whole = certificate(&attribute(&[0x55, 4, 3], "bob"), &[]);
        assert!(names_of(&whole).is_some());
        assert!((0..whole.len()).all(|len| names_of(&whole[..len]).is_none()));
    }
}
