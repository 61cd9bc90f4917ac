//! WHERE: which partitions, which slices of them, and what is left to filter by.

use std::borrow::Cow;

use cql::ast::{Operator, Relation, Term};
use storage::{Bound as SliceBound, Clustering, Slice};
use types::{ColumnDef, ColumnKind, CqlType, TableDef, Token, serialize_partition_key};

use super::filter::{Filter, InList, Test};
use super::tuple::{TupleFilter, TupleSource, TupleTest};
use super::{Bound, Context, Markers, Source, Values};
use crate::error::{QueryError, invalid};

/// The values that one key column may have.
#[derive(Clone, Debug)]
pub(crate) enum OneOf {
    Equal(Source),
    In(InList),
}

impl OneOf {
    fn bind<'v>(
        &'v self,
        column: &str,
        values: &Values<'v>,
        context: &Context,
    ) -> Result<Vec<Cow<'v, [u8]>>, QueryError> {
        match self {
            OneOf::Equal(source) => Ok(vec![source.bind(values, context)?.required(column)?]),
            OneOf::In(list) => {
                let refuse = || invalid!("Invalid null value in condition for column {column}");
                let items = list.bind(column, values, context)?;
                items.into_iter().map(|item| item.ok_or_else(refuse)).collect()
            }
        }
    }

    /// The same as a test of rows.
    fn into_filter(self, column: ColumnDef) -> Filter {
        let test = match self {
            OneOf::Equal(source) => Test::Compare(Operator::Equal, source),
            OneOf::In(values) => Test::In { values, negated: false },
        };
        Filter { column, element: None, test }
    }
}

/// All components of the partition key.
#[derive(Clone, Debug)]
pub(crate) struct KeyPlan {
    components: Vec<OneOf>,
    names: Vec<String>,
    /// A view may have the empty key: a column of the base that is no key there may have an empty value.
    may_be_empty: bool,
}

impl KeyPlan {
    /// One value for each component.
    pub fn of(components: Vec<Source>, names: Vec<String>) -> Self {
        Self { components: components.into_iter().map(OneOf::Equal).collect(), names, may_be_empty: false }
    }

    pub fn has_in(&self) -> bool {
        self.components.iter().any(|one| matches!(one, OneOf::In(_)))
    }

    /// The markers that give the components one by one, or none.
    pub fn markers(&self) -> Vec<u16> {
        let marker = |one: &OneOf| match one {
            OneOf::Equal(source) => source.marker(),
            _ => None,
        };
        self.components.iter().map(marker).collect::<Option<_>>().unwrap_or_default()
    }

    /// Serialised partition keys; several in their own order, each once.
    pub fn keys(&self, values: &Values<'_>, context: &Context) -> Result<Vec<Vec<u8>>, QueryError> {
        if let ([OneOf::Equal(source)], [name]) = (self.components.as_slice(), self.names.as_slice()) {
            // By far the most frequent form.
            let key = source.bind(values, context)?.required(name)?.into_owned();
            return self.check(&key).map(|()| vec![key]);
        }
        let mut choices = Vec::with_capacity(self.components.len());
        for (one, name) in self.components.iter().zip(&self.names) {
            choices.push(one.bind(name, values, context)?);
        }
        let mut keys = Vec::new();
        for combination in combinations("partition", &choices)? {
            check_components(&combination)?;
            let key = serialize_partition_key(&combination);
            self.check(&key)?;
            keys.push(key);
        }
        if keys.len() > 1 {
            keys.sort();
            keys.dedup();
        }
        Ok(keys)
    }
}

impl KeyPlan {
    fn check(&self, key: &[u8]) -> Result<(), QueryError> {
        match key.len() {
            0 if !self.may_be_empty => Err(invalid!("Key may not be empty")),
            len if len > usize::from(u16::MAX) => {
                Err(invalid!("Key length of {len} is longer than maximum of {}", u16::MAX))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a key can be made of them: a component of a key of several has 16 bits for its length.
pub(crate) fn check_components(components: &[&[u8]]) -> Result<(), QueryError> {
    const LEN_MAX: usize = u16::MAX as usize;
    match components.iter().map(|component| component.len()).sum::<usize>() {
        len if len > LEN_MAX => Err(invalid!("Key length of {len} is longer than maximum of {LEN_MAX}")),
        _ => Ok(()),
    }
}

/// How many keys or slices the INs of one statement may multiply to: enough for any list that a frame carries, and
/// little memory.
const PRODUCT_MAX: usize = 65_536;

/// Every way to take one of each, the last position changing first.
fn combinations<'a>(what: &str, choices: &'a [Vec<Cow<'_, [u8]>>]) -> Result<Vec<Vec<&'a [u8]>>, QueryError> {
    let product = choices.iter().fold(1usize, |product, choice| product.saturating_mul(choice.len()));
    if product > PRODUCT_MAX {
        return Err(invalid!("{what}-key cartesian product size {product} is greater than maximum {PRODUCT_MAX}"));
    }
    let mut all: Vec<Vec<&[u8]>> = vec![Vec::with_capacity(choices.len())];
    for choice in choices {
        all = all
            .into_iter()
            .flat_map(|start| {
                choice.iter().map(move |item| {
                    let mut combination = start.clone();
                    combination.push(item);
                    combination
                })
            })
            .collect();
    }
    Ok(all)
}

/// Which partitions.
#[derive(Clone, Debug)]
pub(crate) enum PartitionPlan {
    Keys(KeyPlan),
    /// `(after, to]` of the ring, by `token(..)`; `None` is the ring's end.
    Tokens {
        lower: Option<(TokenSource, bool)>,
        upper: Option<(TokenSource, bool)>,
    },
}

/// What `token(..)` is compared with.
#[derive(Clone, Debug)]
pub(crate) enum TokenSource {
    Value(Source),
    /// `token(1, ?)`: of a key by its components.
    Of(KeyPlan),
}

impl TokenSource {
    fn bind(&self, values: &Values<'_>, context: &Context) -> Result<i64, QueryError> {
        match self {
            TokenSource::Value(source) => {
                let bytes = match source.bind(values, context)? {
                    Bound::Bytes(bytes) => bytes,
                    Bound::Null => return Err(invalid!("Invalid null token value")),
                    Bound::Unset => return Err(invalid!("Invalid unset token value")),
                };
                let bytes = <[u8; 8]>::try_from(&*bytes).map_err(|_| invalid!("a token is a bigint"))?;
                Ok(i64::from_be_bytes(bytes))
            }
            TokenSource::Of(key) => {
                let keys = key.keys(values, context)?;
                Ok(keys.first().map_or(i64::MIN, |key| Token::of_key(key).0))
            }
        }
    }
}

impl PartitionPlan {
    pub fn key_markers(&self) -> Vec<u16> {
        match self {
            PartitionPlan::Keys(keys) => keys.markers(),
            PartitionPlan::Tokens { .. } => Vec::new(),
        }
    }

    /// The range `(start, end]` with `i64::MIN` for either end of the ring; `None` when nothing can be in it.
    pub fn tokens(
        lower: &Option<(TokenSource, bool)>,
        upper: &Option<(TokenSource, bool)>,
        values: &Values<'_>,
        context: &Context,
    ) -> Result<Option<(Token, Token)>, QueryError> {
        let token = |source: &TokenSource| source.bind(values, context);
        let start = match lower {
            None => i64::MIN,
            // Exclusive: behind the token before. Nothing has the least token.
            Some((source, true)) => token(source)?.saturating_sub(1),
            Some((source, false)) => token(source)?,
        };
        let end = match upper {
            None => return Ok(Some((Token(start), Token(i64::MIN)))),
            Some((source, true)) => token(source)?,
            Some((source, false)) => token(source)?.saturating_sub(1),
        };
        // As an upper bound the least token stands for the end of the ring, as Cassandra has it.
        if end == i64::MIN {
            return Ok(Some((Token(start), Token(i64::MIN))));
        }
        Ok((start < end).then_some((Token(start), Token(end))))
    }
}

/// One end of a range over the clustering columns that follow the prefix.
#[derive(Clone, Debug)]
struct RangeEnd {
    values: TupleSource,
    inclusive: bool,
}

/// Which rows of a partition, by the clustering columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlicePlan {
    prefix: Vec<OneOf>,
    /// `(a, b) IN (..)` behind the prefix, and of how many columns it is.
    tuples: Option<(TupleTest, usize)>,
    lower: Option<RangeEnd>,
    upper: Option<RangeEnd>,
}

impl SlicePlan {
    /// One row, by all its clustering columns.
    pub fn row(clustering: Vec<Source>) -> Self {
        Self { prefix: clustering.into_iter().map(OneOf::Equal).collect(), ..Self::default() }
    }

    pub fn has_in(&self) -> bool {
        self.tuples.is_some() || self.prefix.iter().any(|one| matches!(one, OneOf::In(_)))
    }

    /// What the first clustering column is equal to.
    pub fn first_equal(&self) -> Option<&Source> {
        match self.prefix.first()? {
            OneOf::Equal(source) => Some(source),
            OneOf::In(_) => None,
        }
    }

    pub fn has_range(&self) -> bool {
        self.lower.is_some() || self.upper.is_some()
    }

    /// How many clustering columns are restricted by `=` or IN.
    pub fn columns(&self) -> usize {
        self.prefix.len() + self.tuples.as_ref().map_or(0, |(_, columns)| *columns)
    }

    /// Whether nothing but the first clustering column is restricted.
    pub fn is_one_equal(&self) -> bool {
        self.prefix.len() == 1
            && self.first_equal().is_some()
            && self.tuples.is_none()
            && self.lower.is_none()
            && self.upper.is_none()
    }

    pub fn is_all(&self) -> bool {
        self.prefix.is_empty() && self.tuples.is_none() && self.lower.is_none() && self.upper.is_none()
    }

    /// Slices in clustering order, apart from one another.
    pub fn slices(&self, table: &TableDef, values: &Values<'_>, context: &Context) -> Result<Vec<Slice>, QueryError> {
        if self.is_all() {
            return Ok(vec![Slice::all()]);
        }
        let mut choices = Vec::with_capacity(self.prefix.len());
        for (one, column) in self.prefix.iter().zip(&table.clustering) {
            choices.push(one.bind(&column.name, values, context)?);
        }
        let rest = &table.clustering[self.prefix.len().min(table.clustering.len())..];
        let tuples = self.tuples.as_ref().map(|(tuples, _)| tuples.bind(rest, values, context)).transpose()?;
        let bind_end = |end: &Option<RangeEnd>| -> Result<Option<(Vec<Vec<u8>>, bool)>, QueryError> {
            let Some(end) = end else { return Ok(None) };
            Ok(Some((end.values.bind(rest, values, context)?, end.inclusive)))
        };
        let (lower, upper) = (bind_end(&self.lower)?, bind_end(&self.upper)?);
        let mut slices = Vec::new();
        for prefix in combinations("clustering", &choices)? {
            if let Some(tuples) = &tuples {
                for tuple in tuples {
                    let parts = prefix.iter().copied().chain(tuple.iter().map(Vec::as_slice));
                    slices.push(Slice::prefix(Clustering::new(parts)));
                }
                continue;
            }
            let end = |range: &Option<(Vec<Vec<u8>>, bool)>| -> SliceBound {
                let Some((rest, inclusive)) = range else {
                    return SliceBound::inclusive(Clustering::new(&prefix));
                };
                let parts = prefix.iter().copied().chain(rest.iter().map(Vec::as_slice));
                SliceBound { prefix: Clustering::new(parts), inclusive: *inclusive }
            };
            // In a descending column the greater value comes first.
            let descending = table.clustering.get(self.prefix.len()).is_some_and(|column| column.descending);
            let (start, stop) = if descending { (&upper, &lower) } else { (&lower, &upper) };
            slices.push(Slice { start: end(start), end: end(stop) });
        }
        if slices.len() > 1 {
            slices.sort_by(|a, b| a.start.compare_start(&b.start, table));
            slices.dedup();
        }
        Ok(slices)
    }

    /// Whether it names whole rows one by one: a full clustering without a range.
    pub fn is_rows(&self, table: &TableDef) -> bool {
        !self.has_range() && self.columns() == table.clustering.len()
    }
}

/// A whole WHERE.
pub(crate) struct Restrictions {
    pub partition: PartitionPlan,
    pub slices: SlicePlan,
    pub filters: Vec<Filter>,
    pub tuples: Vec<TupleFilter>,
    /// Whether a test of rows may throw away many: the statement has to say ALLOW FILTERING.
    pub is_slow: bool,
}

struct Analysis<'a> {
    table: &'a TableDef,
    keys: Vec<Option<OneOf>>,
    clustering: Vec<Option<OneOf>>,
    tuples: Option<(usize, usize, TupleTest)>,
    /// Ends of ranges with the position of their first clustering column.
    lower: Option<(usize, RangeEnd)>,
    upper: Option<(usize, RangeEnd)>,
    /// Whether a tuple is one of the ends.
    tuple_lower: bool,
    tuple_upper: bool,
    token_lower: Option<(TokenSource, bool)>,
    token_upper: Option<(TokenSource, bool)>,
    filters: Vec<Filter>,
    tuple_filters: Vec<TupleFilter>,
    /// NOT IN of the first clustering column: it does not make a read of partitions slow, but a scan.
    excludes: bool,
    is_slow: bool,
}

pub(crate) fn column<'a>(table: &'a TableDef, name: &str) -> Result<&'a ColumnDef, QueryError> {
    let undefined = || invalid!("Undefined column name {name} in table {}.{}", table.keyspace, table.name);
    table.column(name).ok_or_else(undefined)
}

/// Analyses the relations of a statement on `table`.
pub(crate) fn analyse(
    table: &TableDef,
    relations: &[Relation],
    markers: &mut Markers,
) -> Result<Restrictions, QueryError> {
    let mut analysis = Analysis {
        table,
        keys: vec![None; table.partition_key.len()],
        clustering: vec![None; table.clustering.len()],
        tuples: None,
        lower: None,
        upper: None,
        tuple_lower: false,
        tuple_upper: false,
        token_lower: None,
        token_upper: None,
        filters: Vec::new(),
        tuple_filters: Vec::new(),
        excludes: false,
        is_slow: false,
    };
    for relation in relations {
        analysis.add(relation, markers)?;
    }
    analysis.finish()
}

impl Analysis<'_> {
    fn add(&mut self, relation: &Relation, markers: &mut Markers) -> Result<(), QueryError> {
        match relation {
            Relation::Column { column: name, operator: Operator::NotEqual, value } => {
                column(self.table, name)?;
                return Err(invalid!("Unsupported \"!=\" relation: {name} != {value}"));
            }
            Relation::Column { column: name, operator, value } => {
                let def = column(self.table, name)?.clone();
                check_multi_cell(&def, &operator.to_string())?;
                let source = Source::resolve(value, &def.ty, name, markers)?;
                if matches!(source, Source::Constant(None)) && def.is_primary_key() {
                    return Err(invalid!("Invalid null value in condition for column {name}"));
                }
                if def.ty == CqlType::Duration && *operator != Operator::Equal {
                    return Err(invalid!("Slice restrictions are not supported on duration columns"));
                }
                match (def.kind, operator) {
                    (ColumnKind::PartitionKey(at), Operator::Equal) => self.key(at, def, OneOf::Equal(source)),
                    (ColumnKind::Clustering(at), Operator::Equal) => self.cluster(at, def, OneOf::Equal(source)),
                    (ColumnKind::Clustering(at), operator) => {
                        let filter = Filter::compare(def, *operator, source.clone());
                        if !self.range_end(at as usize, *operator, TupleSource::Each(vec![source])) {
                            self.filters.push(filter);
                        }
                    }
                    (_, operator) => self.slow(Filter::compare(def, *operator, source)),
                }
            }
            Relation::In { column: name, values, negated } => {
                let def = column(self.table, name)?.clone();
                check_multi_cell(&def, "IN")?;
                let values = InList::resolve(values, &def.ty, name, *negated, markers)?;
                match (def.kind, negated) {
                    (ColumnKind::PartitionKey(at), false) => self.key(at, def, OneOf::In(values)),
                    (ColumnKind::Clustering(at), false) => self.cluster(at, def, OneOf::In(values)),
                    // What lies between is a few slices, though it is found by looking at the rows.
                    (ColumnKind::Clustering(0), true) => {
                        self.excludes = true;
                        self.filters.push(Filter {
                            column: def,
                            element: None,
                            test: Test::In { values, negated: true },
                        });
                    }
                    (_, &negated) => {
                        self.slow(Filter { column: def, element: None, test: Test::In { values, negated } });
                    }
                }
            }
            Relation::Tuple { columns, operator, value } => self.tuple(columns, *operator, value, markers)?,
            Relation::TupleIn { columns, values } => {
                let (first, defs) = self.clustering_run(columns)?;
                let test = TupleTest::any_of(values, &defs, markers)?;
                if let Some((first, columns, test)) = self.tuples.replace((first, defs.len(), test)) {
                    self.tuple_filters.push(TupleFilter { first, columns, test });
                }
            }
            Relation::Token { columns, operator, value } => self.token(columns, *operator, value, markers)?,
            Relation::Contains { column: name, key, value } => {
                let def = column(self.table, name)?.clone();
                self.slow(Filter::contains(def, *key, value, markers)?);
            }
            Relation::Element { column: name, key, operator, value } => {
                let def = column(self.table, name)?.clone();
                if matches!(&def.ty, CqlType::Frozen(map) if matches!(**map, CqlType::Map(..))) {
                    return Err(invalid!(
                        "Map-entry equality predicates on frozen map column {name} are not supported"
                    ));
                }
                let (element, ty, name) = Filter::subject(&def, Some(key), markers)?;
                if *operator == Operator::NotEqual {
                    return Err(invalid!("Unsupported \"!=\" relation: {}[{key}] != {value}", def.name));
                }
                let value = Source::resolve(value, &ty, &name, markers)?;
                self.slow(Filter { column: def, element, test: Test::Compare(*operator, value) });
            }
            Relation::IsNotNull { column } => {
                return Err(invalid!("Unsupported restriction: {column} IS NOT NULL"));
            }
            Relation::Like { column: name, pattern } => {
                let def = column(self.table, name)?.clone();
                self.slow(Filter::like(def, pattern, markers)?);
            }
        }
        Ok(())
    }

    /// A test that rows have to be read for.
    fn slow(&mut self, filter: Filter) {
        self.filters.push(filter);
        self.is_slow = true;
    }

    fn key(&mut self, at: u16, def: ColumnDef, one: OneOf) {
        first_or_filter(&mut self.keys[usize::from(at)], &mut self.filters, def, one);
    }

    fn cluster(&mut self, at: u16, def: ColumnDef, one: OneOf) {
        first_or_filter(&mut self.clustering[usize::from(at)], &mut self.filters, def, one);
    }

    fn tuple(
        &mut self,
        columns: &[String],
        operator: Operator,
        value: &Term,
        markers: &mut Markers,
    ) -> Result<(), QueryError> {
        let (first, defs) = self.clustering_run(columns)?;
        let values = TupleSource::resolve(value, &defs, markers)?;
        if operator.is_slice() {
            let bound = if operator.is_upper() { &mut self.tuple_upper } else { &mut self.tuple_lower };
            if std::mem::replace(bound, true) {
                // Two ranges of tuples are not one slice.
                let end = if operator.is_upper() { "end" } else { "start" };
                return Err(invalid!("More than one restriction was found for the {end} bound on {}", columns[0]));
            }
        }
        match (operator, values) {
            (Operator::NotEqual, _) => {
                return Err(invalid!("Unsupported \"!=\" relation: ({}) != {value}", columns.join(", ")));
            }
            (Operator::Equal, TupleSource::Each(sources)) => {
                for (at, (source, def)) in sources.into_iter().zip(defs).enumerate() {
                    self.cluster((first + at) as u16, def, OneOf::Equal(source));
                }
            }
            (Operator::Equal, values) => {
                let test = TupleTest::Any(vec![values]);
                if let Some((first, columns, test)) = self.tuples.replace((first, defs.len(), test)) {
                    self.tuple_filters.push(TupleFilter { first, columns, test });
                }
            }
            (operator, values) => {
                let filter =
                    TupleFilter { first, columns: defs.len(), test: TupleTest::Compare(operator, values.clone()) };
                let mixed = defs.windows(2).any(|pair| pair[0].descending != pair[1].descending);
                if mixed {
                    // Not one slice. The first column bounds it from outside, and rows are compared one by one.
                    let operator = match operator {
                        Operator::Less => Operator::LessOrEqual,
                        Operator::Greater => Operator::GreaterOrEqual,
                        other => other,
                    };
                    self.range_end(first, operator, values.first_of(&defs));
                    self.tuple_filters.push(filter);
                } else if !self.range_end(first, operator, values) {
                    self.tuple_filters.push(filter);
                }
            }
        }
        Ok(())
    }

    /// Columns of a tuple: clustering columns one behind the other.
    fn clustering_run(&self, columns: &[String]) -> Result<(usize, Vec<ColumnDef>), QueryError> {
        let mut first = None;
        let mut defs = Vec::new();
        for (offset, name) in columns.iter().enumerate() {
            let def = column(self.table, name)?;
            let ColumnKind::Clustering(at) = def.kind else {
                return Err(invalid!(
                    "Multi-column relations can only be applied to clustering columns but was applied to: {name}"
                ));
            };
            if columns[..offset].contains(name) {
                return Err(invalid!("Column \"{name}\" appeared twice in a relation: ({})", columns.join(", ")));
            }
            let first = *first.get_or_insert(at as usize);
            if first + offset != at as usize {
                return Err(invalid!(
                    "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: ({})",
                    columns.join(", ")
                ));
            }
            defs.push(def.clone());
        }
        Ok((first.unwrap_or(0), defs))
    }

    /// Takes one end of a range; false when there was one already.
    fn range_end(&mut self, at: usize, operator: Operator, values: TupleSource) -> bool {
        let inclusive = matches!(operator, Operator::LessOrEqual | Operator::GreaterOrEqual);
        let end = match operator {
            Operator::Less | Operator::LessOrEqual => &mut self.upper,
            _ => &mut self.lower,
        };
        match end {
            Some(_) => false,
            None => {
                *end = Some((at, RangeEnd { values, inclusive }));
                true
            }
        }
    }

    fn token(
        &mut self,
        columns: &[String],
        operator: Operator,
        value: &Term,
        markers: &mut Markers,
    ) -> Result<(), QueryError> {
        let names = self.table.partition_key.iter().map(|column| &column.name);
        if !names.clone().eq(columns) {
            for (at, name) in columns.iter().enumerate() {
                column(self.table, name)?;
                if columns[..at].contains(name) {
                    return Err(invalid!("The token() function contains duplicate partition key components"));
                }
            }
            let is_key = |name: &String| names.clone().any(|key| key == name);
            if columns.len() != self.table.partition_key.len() || !columns.iter().all(is_key) {
                return Err(invalid!(
                    "The token() function must be applied to all partition key components or none of them"
                ));
            }
            return Err(invalid!(
                "The token function arguments must be in the partition key order: {}",
                self.table.partition_key.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
            ));
        }
        if operator == Operator::NotEqual {
            return Err(invalid!("Unsupported \"!=\" relation: token({}) != {value}", columns.join(", ")));
        }
        let source = match value {
            Term::Function { name, arguments } if name.name.eq_ignore_ascii_case("token") => {
                let key = &self.table.partition_key;
                if arguments.len() != key.len() {
                    return Err(invalid!(
                        "Invalid number of arguments in call to function token: {} required but {} provided",
                        key.len(),
                        arguments.len()
                    ));
                }
                let parts = arguments
                    .iter()
                    .zip(key)
                    .map(|(argument, column)| Source::resolve(argument, &column.ty, &column.name, markers))
                    .collect::<Result<_, _>>()?;
                TokenSource::Of(KeyPlan::of(parts, names.cloned().collect()))
            }
            value => TokenSource::Value(Source::resolve(value, &CqlType::BigInt, "partition key token", markers)?),
        };
        let inclusive = matches!(operator, Operator::LessOrEqual | Operator::GreaterOrEqual | Operator::Equal);
        let twice =
            |what| invalid!("More than one restriction was found for the {what} bound on {}", columns.join(", "));
        if matches!(operator, Operator::Less | Operator::LessOrEqual | Operator::Equal)
            && self.token_upper.replace((source.clone(), inclusive)).is_some()
        {
            return Err(twice("end"));
        }
        if matches!(operator, Operator::Greater | Operator::GreaterOrEqual | Operator::Equal)
            && self.token_lower.replace((source, inclusive)).is_some()
        {
            return Err(twice("start"));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Restrictions, QueryError> {
        let table = self.table;
        let given = self.keys.iter().filter(|key| key.is_some()).count();
        let by_token = self.token_lower.is_some() || self.token_upper.is_some();
        let partition = if given == self.keys.len() && !by_token {
            let components: Vec<OneOf> = self.keys.iter_mut().filter_map(Option::take).collect();
            PartitionPlan::Keys(KeyPlan {
                components,
                names: table.partition_key.iter().map(|column| column.name.clone()).collect(),
                may_be_empty: table.view.is_some(),
            })
        } else {
            for (key, column) in std::mem::take(&mut self.keys).into_iter().zip(&table.partition_key) {
                if let Some(one) = key {
                    if by_token {
                        return Err(invalid!(
                            "Columns \"{}\" cannot be restricted by both a normal relation and a token relation",
                            column.name
                        ));
                    }
                    self.slow(one.into_filter(column.clone()));
                }
            }
            PartitionPlan::Tokens { lower: self.token_lower.take(), upper: self.token_upper.take() }
        };
        self.is_slow |= self.excludes && matches!(partition, PartitionPlan::Tokens { .. });
        let slices = self.slice_plan()?;
        Ok(Restrictions { partition, slices, filters: self.filters, tuples: self.tuple_filters, is_slow: self.is_slow })
    }

    /// The longest prefix of restricted columns and a range behind it; what lies behind that becomes a filter.
    fn slice_plan(&mut self) -> Result<SlicePlan, QueryError> {
        let table = self.table;
        let mut plan = SlicePlan::default();
        let mut at = 0;
        while let Some(one) = self.clustering.get_mut(at).and_then(Option::take) {
            plan.prefix.push(one);
            at += 1;
        }
        if let Some((first, columns, test)) = self.tuples.take() {
            if first == at {
                plan.tuples = Some((test, columns));
            } else {
                self.is_slow |= first > at;
                self.tuple_filters.push(TupleFilter { first, columns, test });
            }
        }
        for (is_lower, end) in [(true, self.lower.take()), (false, self.upper.take())] {
            let Some((first, range)) = end else { continue };
            if first == at && plan.tuples.is_none() {
                *(if is_lower { &mut plan.lower } else { &mut plan.upper }) = Some(range);
                continue;
            }
            let operator = match (is_lower, range.inclusive) {
                (true, true) => Operator::GreaterOrEqual,
                (true, false) => Operator::Greater,
                (false, true) => Operator::LessOrEqual,
                (false, false) => Operator::Less,
            };
            self.is_slow |= first > at;
            let columns = range.values.columns();
            self.tuple_filters.push(TupleFilter { first, columns, test: TupleTest::Compare(operator, range.values) });
        }
        for (one, column) in std::mem::take(&mut self.clustering).into_iter().zip(&table.clustering) {
            if let Some(one) = one {
                self.slow(one.into_filter(column.clone()));
            }
        }
        Ok(plan)
    }
}

/// A second restriction of a column that is restricted already tests what the first one finds.
fn first_or_filter(place: &mut Option<OneOf>, filters: &mut Vec<Filter>, def: ColumnDef, one: OneOf) {
    match place {
        None => *place = Some(one),
        Some(_) => filters.push(one.into_filter(def)),
    }
}

/// Collections of several cells have no order and no equality that a row could be found by. User types have, field by
/// field, as in ScyllaDB.
fn check_multi_cell(def: &ColumnDef, relation: &str) -> Result<(), QueryError> {
    match def.ty.is_multi_cell() && !matches!(def.ty, CqlType::Udt(_)) {
        true => Err(invalid!(
            "Collection column '{}' ({}) cannot be restricted by a '{relation}' relation",
            def.name,
            def.ty
        )),
        false => Ok(()),
    }
}

/// What is wrong with restrictions of clustering columns that are no prefix of them, or go on behind a range; `None`
/// when they are not.
pub(crate) fn out_of_order(table: &TableDef, relations: &[Relation]) -> Option<QueryError> {
    /// Whether the column is restricted by `=` or IN, by the relation of this position.
    fn restricted<'r>(name: &str, relations: &'r [Relation]) -> Option<(bool, &'r Relation)> {
        relations.iter().find_map(|relation| match relation {
            Relation::Column { column, operator, .. } if column == name => {
                Some((*operator == Operator::Equal, relation))
            }
            Relation::In { column, negated, .. } if column == name => Some((!negated, relation)),
            Relation::Tuple { columns, operator, .. } if columns.iter().any(|column| column == name) => {
                Some((*operator == Operator::Equal, relation))
            }
            Relation::TupleIn { columns, .. } if columns.iter().any(|column| column == name) => Some((true, relation)),
            _ => None,
        })
    }
    let mut before: Option<(&str, Option<&Relation>)> = None;
    for ColumnDef { name, .. } in &table.clustering {
        match (restricted(name, relations), before) {
            (None, _) => {
                before.get_or_insert((name, None));
            }
            (Some(_), Some((gap, None))) => {
                return Some(invalid!(
                    "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{gap}\" is not restricted"
                ));
            }
            (Some((_, relation)), Some((range, Some(first)))) if !std::ptr::eq(first, relation) => {
                return Some(invalid!(
                    "Clustering column \"{name}\" cannot be restricted (preceding column \"{range}\" is restricted by a \
                     non-EQ relation)"
                ));
            }
            (Some((false, relation)), None) => before = Some((name, Some(relation))),
            _ => {}
        }
    }
    None
}

pub(crate) fn filtering() -> QueryError {
    invalid!(
        "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. \
         If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING"
    )
}
