//! What a statement says, before names and types mean anything. Identifiers are folded to lower case unless they
//! were quoted. Terms are untyped: `term` gives a constant its bytes once the type is known. A user type in a
//! `CqlType` has its name alone, as `CqlType::named` makes it.

mod derived;

pub mod access;

use std::collections::BTreeMap;
use std::fmt;

use types::{CqlType, quote_identifier};

pub use derived::{CreateIndex, CreateView, IndexPart, IndexTarget, PruneView};

#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    Select(Select),
    Insert(Insert),
    InsertJson(InsertJson),
    Update(Update),
    Delete(Delete),
    Batch(Batch),
    Use(String),
    Truncate {
        table: QualifiedName,
        timeout: Option<Term>,
    },
    CreateKeyspace(CreateKeyspace),
    AlterKeyspace(AlterKeyspace),
    DropKeyspace {
        name: String,
        if_exists: bool,
    },
    CreateTable(CreateTable),
    AlterTable(AlterTable),
    DropTable {
        name: QualifiedName,
        if_exists: bool,
    },
    CreateType(CreateType),
    AlterType(AlterType),
    DropType {
        name: QualifiedName,
        if_exists: bool,
    },
    CreateView(CreateView),
    AlterView {
        name: QualifiedName,
        if_exists: bool,
        properties: Properties,
    },
    DropView {
        name: QualifiedName,
        if_exists: bool,
    },
    /// `PRUNE MATERIALIZED VIEW`
    PruneView(PruneView),
    CreateIndex(CreateIndex),
    DropIndex {
        name: QualifiedName,
        if_exists: bool,
    },
    CreateFunction(CreateFunction),
    CreateAggregate(CreateAggregate),
    /// Without `arguments`: the only one of the name.
    DropFunction {
        name: QualifiedName,
        arguments: Option<Vec<CqlType>>,
        if_exists: bool,
    },
    DropAggregate {
        name: QualifiedName,
        arguments: Option<Vec<CqlType>>,
        if_exists: bool,
    },
    Access(access::AccessStatement),
}

/// `keyspace.name`, or a name in the session's keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    pub keyspace: Option<String>,
    pub name: String,
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        f.write_str(&self.name)
    }
}

/// What a constant looks like, in Cassandra's words: `Invalid STRING constant ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantKind {
    String,
    Integer,
    Float,
    Uuid,
    Boolean,
    Hex,
    Duration,
}

impl ConstantKind {
    pub fn name(self) -> &'static str {
        match self {
            ConstantKind::String => "STRING",
            ConstantKind::Integer => "INTEGER",
            ConstantKind::Float => "FLOAT",
            ConstantKind::Uuid => "UUID",
            ConstantKind::Boolean => "BOOLEAN",
            ConstantKind::Hex => "HEX",
            ConstantKind::Duration => "DURATION",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    Null,
    /// The text is what stands between the quotes for a string, as written for the others (`0x` included).
    Constant {
        kind: ConstantKind,
        text: String,
    },
    /// A bind marker, by its position in the statement; its name is in `Parsed::markers`.
    Marker(u16),
    List(Vec<Term>),
    /// Also the empty map: `{}`.
    Set(Vec<Term>),
    Map(Vec<(Term, Term)>),
    Tuple(Vec<Term>),
    /// `{street: 'x', number: 1}`: fields of a user type by name.
    Fields(Vec<(String, Term)>),
    Function {
        name: QualifiedName,
        arguments: Vec<Term>,
    },
    /// `(type) term`
    Cast {
        ty: CqlType,
        term: Box<Term>,
    },
}

impl Term {
    pub fn string(text: &str) -> Term {
        Term::Constant { kind: ConstantKind::String, text: text.to_string() }
    }

    pub fn integer(value: i64) -> Term {
        Term::Constant { kind: ConstantKind::Integer, text: value.to_string() }
    }

    fn is_sum(&self) -> bool {
        matches!(self, Term::Function { name, arguments } if is_sum(&name.name, arguments.len()))
    }

    /// Calls `visit` for every marker inside.
    pub fn for_each_marker(&self, visit: &mut impl FnMut(u16)) {
        match self {
            Term::Marker(index) => visit(*index),
            Term::Null | Term::Constant { .. } => {}
            Term::List(items) | Term::Set(items) | Term::Tuple(items) => {
                items.iter().for_each(|item| item.for_each_marker(visit))
            }
            Term::Function { arguments, .. } => arguments.iter().for_each(|item| item.for_each_marker(visit)),
            Term::Map(entries) => {
                for (key, value) in entries {
                    key.for_each_marker(visit);
                    value.for_each_marker(visit);
                }
            }
            Term::Fields(fields) => fields.iter().for_each(|(_, value)| value.for_each_marker(visit)),
            Term::Cast { term, .. } => term.for_each_marker(visit),
        }
    }
}

/// Operators are functions with their symbol as a name: of two operands, and `-` of one.
pub const OPERATORS: [&str; 5] = ["+", "-", "*", "/", "%"];

fn is_operator(name: &str) -> bool {
    OPERATORS.contains(&name)
}

fn is_sum(name: &str, operands: usize) -> bool {
    matches!(name, "+" | "-") && operands == 2
}

/// An operation as it is written; `sums` says which operands are sums.
pub fn operation(symbol: &str, operands: impl Iterator<Item = String>, sums: impl Iterator<Item = bool>) -> String {
    let operands: Vec<(String, bool)> = operands.zip(sums).collect();
    let binds = !is_sum(symbol, operands.len());
    let show = |(at, (text, is_sum)): (usize, &(String, bool))| match *is_sum && (binds || at > 0) {
        true => format!("({text})"),
        false => text.clone(),
    };
    let shown: Vec<String> = operands.iter().enumerate().map(show).collect();
    match shown.as_slice() {
        [one] => format!("{symbol}{one}"),
        several => several.join(&format!(" {symbol} ")),
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, items: &[Term], open: &str, close: &str| {
            f.write_str(open)?;
            for (at, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
            }
            f.write_str(close)
        };
        match self {
            Term::Null => f.write_str("NULL"),
            Term::Constant { kind: ConstantKind::String, text } => write!(f, "'{}'", text.replace('\'', "''")),
            Term::Constant { text, .. } => f.write_str(text),
            Term::Marker(_) => f.write_str("?"),
            Term::List(items) => list(f, items, "[", "]"),
            Term::Set(items) => list(f, items, "{", "}"),
            Term::Tuple(items) => list(f, items, "(", ")"),
            Term::Map(entries) => {
                f.write_str("{")?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
            Term::Fields(fields) => {
                f.write_str("{")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{}: {value}", if at == 0 { "" } else { ", " }, quote_identifier(name))?;
                }
                f.write_str("}")
            }
            Term::Function { name, arguments } if is_operator(&name.name) => {
                let shown = arguments.iter().map(ToString::to_string);
                f.write_str(&operation(&name.name, shown, arguments.iter().map(Term::is_sum)))
            }
            Term::Function { name, arguments } => {
                write!(f, "{name}")?;
                list(f, arguments, "(", ")")
            }
            Term::Cast { ty, term } => write!(f, "({ty}){term}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    pub table: QualifiedName,
    pub selection: Selection,
    pub distinct: bool,
    pub json: bool,
    pub filter: Vec<Relation>,
    pub group_by: Vec<String>,
    pub order_by: Vec<(String, Direction)>,
    pub per_partition_limit: Option<Term>,
    pub limit: Option<Term>,
    pub allow_filtering: bool,
    pub bypass_cache: bool,
    /// `USING TIMEOUT ..`
    pub timeout: Option<Term>,
    /// `USING SERVICE LEVEL`: whose timeout applies.
    pub service_level: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    All,
    Items(Vec<SelectItem>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    pub selector: Selector,
    pub alias: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Selector {
    Column(String),
    /// `count(*)`
    CountRows,
    /// Of a column, or of an element or a field of one.
    WriteTime(Box<Selector>),
    MaxWriteTime(Box<Selector>),
    Ttl(Box<Selector>),
    /// `m['k']`
    Element {
        of: Box<Selector>,
        key: Term,
    },
    /// `m['a'..'c']`, both ends included; of one end or the other there may be none.
    Slice {
        of: Box<Selector>,
        from: Option<Term>,
        to: Option<Term>,
    },
    /// `address.street`
    Field {
        of: Box<Selector>,
        field: String,
    },
    /// Any other function, `token` and `count(column)` among them.
    Function {
        name: QualifiedName,
        arguments: Vec<Selector>,
    },
    /// `CAST(x AS type)`
    Cast {
        selector: Box<Selector>,
        ty: CqlType,
    },
    Term(Term),
}

impl Selector {
    pub fn is_sum(&self) -> bool {
        match self {
            Selector::Function { name, arguments } => is_sum(&name.name, arguments.len()),
            Selector::Term(term) => term.is_sum(),
            _ => false,
        }
    }
}

impl fmt::Display for Selector {
    /// The name of the result's column when there is no alias, as Cassandra gives it; it puts `system.` before a
    /// native function's name, which the query layer does where it knows the function.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Column(name) => f.write_str(name),
            Selector::CountRows => f.write_str("count"),
            Selector::WriteTime(column) => write!(f, "writetime({column})"),
            Selector::MaxWriteTime(column) => write!(f, "maxwritetime({column})"),
            Selector::Ttl(column) => write!(f, "ttl({column})"),
            Selector::Element { of, key } => write!(f, "{of}[{key}]"),
            Selector::Slice { of, from, to } => {
                let end = |end: &Option<Term>| end.as_ref().map(Term::to_string).unwrap_or_default();
                write!(f, "{of}[{}..{}]", end(from), end(to))
            }
            Selector::Field { of, field } => write!(f, "{of}.{field}"),
            Selector::Function { name, arguments } if is_operator(&name.name) => {
                let shown = arguments.iter().map(ToString::to_string);
                f.write_str(&operation(&name.name, shown, arguments.iter().map(Selector::is_sum)))
            }
            Selector::Function { name, arguments } => {
                write!(f, "{name}(")?;
                for (at, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Selector::Cast { selector, ty } => write!(f, "cast({selector} as {ty})"),
            Selector::Term(term) => write!(f, "{term}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    pub fn is_slice(self) -> bool {
        !matches!(self, Operator::Equal | Operator::NotEqual)
    }

    /// Whether it bounds from above.
    pub fn is_upper(self) -> bool {
        matches!(self, Operator::Less | Operator::LessOrEqual)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Equal => "=",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
        })
    }
}

/// The right side of IN: one marker for the whole list, or terms.
#[derive(Clone, Debug, PartialEq)]
pub enum InValues {
    Marker(u16),
    Terms(Vec<Term>),
}

/// One condition of WHERE. BETWEEN comes as two.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    Column {
        column: String,
        operator: Operator,
        value: Term,
    },
    In {
        column: String,
        values: InValues,
        negated: bool,
    },
    /// `(a, b) > (1, 2)`; the value is a tuple or a marker.
    Tuple {
        columns: Vec<String>,
        operator: Operator,
        value: Term,
    },
    /// `(a, b) IN ((1, 2), (3, 4))`
    TupleIn {
        columns: Vec<String>,
        values: InValues,
    },
    /// `token(a, b) > 5`
    Token {
        columns: Vec<String>,
        operator: Operator,
        value: Term,
    },
    Contains {
        column: String,
        key: bool,
        value: Term,
    },
    /// `m['k'] = 1`
    Element {
        column: String,
        key: Term,
        operator: Operator,
        value: Term,
    },
    IsNotNull {
        column: String,
    },
    Like {
        column: String,
        pattern: Term,
    },
}

/// `USING TIMESTAMP .. AND TTL .. AND TIMEOUT ..`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Using {
    pub timestamp: Option<Term>,
    pub ttl: Option<Term>,
    /// A duration.
    pub timeout: Option<Term>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    pub table: QualifiedName,
    pub columns: Vec<String>,
    /// Maybe not as many as the columns: the query layer refuses that in Cassandra's words.
    pub values: Vec<Term>,
    pub if_not_exists: bool,
    pub using: Using,
}

#[derive(Clone, Debug, PartialEq)]
pub struct InsertJson {
    pub table: QualifiedName,
    /// A string or a marker.
    pub json: Term,
    /// `DEFAULT UNSET`: columns that the JSON leaves out stay as they are.
    pub default_unset: bool,
    pub if_not_exists: bool,
    pub using: Using,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub table: QualifiedName,
    pub using: Using,
    pub assignments: Vec<Assignment>,
    pub filter: Vec<Relation>,
    pub condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    pub column: String,
    pub operation: Operation,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// `c = term`
    Set(Term),
    /// `c = c + term`, `c += term`: counters and collections.
    Add(Term),
    /// `c = c - term`, `c -= term`
    Subtract(Term),
    /// `c = term + c`: lists.
    Prepend(Term),
    /// `c[key] = term`
    SetElement { key: Term, value: Term },
    /// `c.field = term`
    SetField { field: String, value: Term },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    pub table: QualifiedName,
    /// Empty deletes whole rows.
    pub targets: Vec<DeleteTarget>,
    pub timestamp: Option<Term>,
    pub timeout: Option<Term>,
    pub filter: Vec<Relation>,
    pub condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DeleteTarget {
    Column(String),
    Element { column: String, key: Term },
    Field { column: String, field: String },
}

/// `IF ..` of a conditional statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Condition {
    #[default]
    None,
    Exists,
    Columns(Vec<ColumnCondition>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ColumnCondition {
    pub column: String,
    /// `m['k']`
    pub element: Option<Term>,
    pub test: ConditionTest,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ConditionTest {
    Compare(Operator, Term),
    In {
        values: InValues,
        negated: bool,
    },
    Like(Term),
    /// `CONTAINS [KEY]`
    Contains {
        key: bool,
        value: Term,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub kind: crate::request::BatchKind,
    pub using: Using,
    /// INSERT, UPDATE and DELETE alone.
    pub statements: Vec<Statement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    Text(String),
    Map(BTreeMap<String, String>),
}

/// `WITH name = value AND ..`
pub type Properties = BTreeMap<String, PropertyValue>;

#[derive(Clone, Debug, PartialEq)]
pub struct CreateKeyspace {
    pub name: String,
    pub if_not_exists: bool,
    pub properties: Properties,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterKeyspace {
    pub name: String,
    pub if_exists: bool,
    pub properties: Properties,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDefinition {
    pub name: String,
    pub ty: CqlType,
    pub is_static: bool,
    /// `TTL` behind the type: it says when the row expires.
    pub is_ttl: bool,
    /// `MASKED WITH`: a function's call, without the column as its first argument.
    pub mask: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    pub name: QualifiedName,
    pub if_not_exists: bool,
    /// As written, key columns among them.
    pub columns: Vec<ColumnDefinition>,
    /// Empty if none was given: the query layer refuses that.
    pub partition_key: Vec<String>,
    pub clustering: Vec<String>,
    pub clustering_order: Vec<(String, Direction)>,
    pub compact_storage: bool,
    /// More than one PRIMARY KEY was written: the query layer refuses that.
    pub has_several_keys: bool,
    pub properties: Properties,
}

impl CreateTable {
    /// The head of the statement: what is to come is empty yet.
    pub(crate) fn without_columns(name: QualifiedName, if_not_exists: bool) -> CreateTable {
        CreateTable {
            name,
            if_not_exists,
            columns: Vec::new(),
            partition_key: Vec::new(),
            clustering: Vec::new(),
            clustering_order: Vec::new(),
            compact_storage: false,
            has_several_keys: false,
            properties: Properties::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    pub name: QualifiedName,
    pub if_exists: bool,
    pub change: TableChange,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableChange {
    Add {
        columns: Vec<ColumnDefinition>,
        if_not_exists: bool,
    },
    Drop {
        columns: Vec<String>,
        if_exists: bool,
        /// `USING TIMESTAMP`: what was written up to this microsecond is gone.
        timestamp: Option<i64>,
    },
    Rename {
        columns: Vec<(String, String)>,
        if_exists: bool,
    },
    AlterType {
        column: String,
        ty: CqlType,
    },
    /// `ALTER column MASKED WITH ..`, or `ALTER column DROP MASKED`
    Mask {
        column: String,
        mask: Option<String>,
        if_exists: bool,
    },
    /// `TTL column`, or `TTL NULL`
    Ttl(Option<String>),
    Properties(Properties),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateType {
    pub name: QualifiedName,
    pub if_not_exists: bool,
    pub fields: Vec<(String, CqlType)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterType {
    pub name: QualifiedName,
    pub if_exists: bool,
    pub change: TypeChange,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TypeChange {
    Add { field: String, ty: CqlType, if_not_exists: bool },
    Rename { fields: Vec<(String, String)>, if_exists: bool },
    Alter { field: String, ty: CqlType },
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    pub name: QualifiedName,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub arguments: Vec<(String, CqlType)>,
    pub called_on_null_input: bool,
    pub returns: CqlType,
    pub language: String,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateAggregate {
    pub name: QualifiedName,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub arguments: Vec<CqlType>,
    pub state_function: QualifiedName,
    pub state_type: CqlType,
    pub reduce_function: Option<QualifiedName>,
    pub final_function: Option<QualifiedName>,
    pub initial: Option<Term>,
}
