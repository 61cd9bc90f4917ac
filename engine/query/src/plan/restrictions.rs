//! WHERE: which partitions, which slices of them, and what is left to filter by.

use std::borrow::Cow;

use cql::ast::{InValues, Operator, Relation, Term};
use storage::{Bound as SliceBound, Clustering, Slice};
use types::{ColumnDef, ColumnKind, CqlType, TableDef, Token, collection, serialize_partition_key};

use super::select::Filter;
use super::{Context, Markers, Source, Values};
use crate::error::{QueryError, invalid};

/// The values that one key column may have.
#[derive(Clone, Debug)]
pub(crate) enum OneOf {
    Equal(Source),
    In(Vec<Source>),
    /// `IN ?`: a list.
    InList(Source),
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
            OneOf::In(sources) => sources.iter().map(|source| source.bind(values, context)?.required(column)).collect(),
            OneOf::InList(source) => {
                let list = source.bind(values, context)?.required(column)?;
                let items = collection::elements(&list).map_err(|error| invalid!("{error}"))?;
                let owned = |item: &Option<&[u8]>| match item {
                    Some(bytes) => Ok(Cow::Owned(bytes.to_vec())),
                    None => Err(invalid!("Invalid null value in condition for column {column}")),
                };
                items.iter().map(owned).collect()
            }
        }
    }
}

/// All components of the partition key.
#[derive(Clone, Debug)]
pub(crate) struct KeyPlan {
    components: Vec<OneOf>,
    names: Vec<String>,
}

impl KeyPlan {
    /// One value for each component.
    pub fn of(components: Vec<Source>, names: Vec<String>) -> Self {
        Self { components: components.into_iter().map(OneOf::Equal).collect(), names }
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
            return check_key(&key).map(|()| vec![key]);
        }
        let mut choices = Vec::with_capacity(self.components.len());
        for (one, name) in self.components.iter().zip(&self.names) {
            choices.push(one.bind(name, values, context)?);
        }
        let mut keys = Vec::new();
        for combination in combinations(&choices) {
            let key = serialize_partition_key(&combination);
            check_key(&key)?;
            keys.push(key);
        }
        if keys.len() > 1 {
            keys.sort();
            keys.dedup();
        }
        Ok(keys)
    }
}

fn check_key(key: &[u8]) -> Result<(), QueryError> {
    match key.len() {
        0 => Err(invalid!("Key may not be empty")),
        len if len > usize::from(u16::MAX) => {
            Err(invalid!("Key length of {len} is longer than maximum of {}", u16::MAX))
        }
        _ => Ok(()),
    }
}

/// Every way to take one of each, the last position changing first.
fn combinations<'a>(choices: &'a [Vec<Cow<'_, [u8]>>]) -> Vec<Vec<&'a [u8]>> {
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
    all
}

/// Which partitions.
#[derive(Clone, Debug)]
pub(crate) enum PartitionPlan {
    Keys(KeyPlan),
    /// `(after, to]` of the ring, by `token(..)`; `None` is the ring's end.
    Tokens {
        lower: Option<(Source, bool)>,
        upper: Option<(Source, bool)>,
    },
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
        lower: &Option<(Source, bool)>,
        upper: &Option<(Source, bool)>,
        values: &Values<'_>,
        context: &Context,
    ) -> Result<Option<(Token, Token)>, QueryError> {
        let token = |source: &Source| -> Result<i64, QueryError> {
            let bytes = source.bind(values, context)?.required("token")?;
            let bytes = <[u8; 8]>::try_from(&*bytes).map_err(|_| invalid!("a token is a bigint"))?;
            Ok(i64::from_be_bytes(bytes))
        };
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
    values: Vec<Source>,
    inclusive: bool,
}

/// Which rows of a partition, by the clustering columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlicePlan {
    prefix: Vec<OneOf>,
    /// `(a, b) IN (..)` in place of the rest of the prefix.
    tuples: Option<Vec<Vec<Source>>>,
    lower: Option<RangeEnd>,
    upper: Option<RangeEnd>,
}

impl SlicePlan {
    /// One row, by all its clustering columns.
    pub fn row(clustering: Vec<Source>) -> Self {
        Self { prefix: clustering.into_iter().map(OneOf::Equal).collect(), ..Self::default() }
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
        let bind_all = |sources: &[Source]| -> Result<Vec<Vec<u8>>, QueryError> {
            let bind = |(source, column): (&Source, &ColumnDef)| {
                Ok(source.bind(values, context)?.required(&column.name)?.into_owned())
            };
            sources.iter().zip(&table.clustering[self.prefix.len()..]).map(bind).collect()
        };
        let mut slices = Vec::new();
        for prefix in combinations(&choices) {
            if let Some(tuples) = &self.tuples {
                for tuple in tuples {
                    let tuple = bind_all(tuple)?;
                    let parts = prefix.iter().copied().chain(tuple.iter().map(Vec::as_slice));
                    slices.push(Slice::prefix(Clustering::new(parts)));
                }
                continue;
            }
            let end = |range: &Option<RangeEnd>| -> Result<SliceBound, QueryError> {
                let Some(range) = range else {
                    return Ok(SliceBound::inclusive(Clustering::new(&prefix)));
                };
                let rest = bind_all(&range.values)?;
                let parts = prefix.iter().copied().chain(rest.iter().map(Vec::as_slice));
                Ok(SliceBound { prefix: Clustering::new(parts), inclusive: range.inclusive })
            };
            // In a descending column the greater value comes first.
            let descending = table.clustering.get(self.prefix.len()).is_some_and(|column| column.descending);
            let (start, stop) = if descending { (&self.upper, &self.lower) } else { (&self.lower, &self.upper) };
            slices.push(Slice { start: end(start)?, end: end(stop)? });
        }
        if slices.len() > 1 {
            slices.sort_by(|a, b| a.start.compare_start(&b.start, table));
            slices.dedup();
        }
        Ok(slices)
    }

    /// Whether it names whole rows one by one: a full clustering without a range.
    pub fn is_rows(&self, table: &TableDef) -> bool {
        self.tuples.is_none()
            && self.lower.is_none()
            && self.upper.is_none()
            && self.prefix.len() == table.clustering.len()
    }
}

/// A whole WHERE.
pub(crate) struct Restrictions {
    pub partition: PartitionPlan,
    pub slices: SlicePlan,
    pub filters: Vec<Filter>,
}

struct Analysis<'a> {
    table: &'a TableDef,
    keys: Vec<Option<OneOf>>,
    clustering: Vec<Option<OneOf>>,
    tuples: Option<(usize, Vec<Vec<Source>>)>,
    /// Ends of ranges with the position of their first clustering column.
    lower: Option<(usize, RangeEnd)>,
    upper: Option<(usize, RangeEnd)>,
    token_lower: Option<(Source, bool)>,
    token_upper: Option<(Source, bool)>,
    filters: Vec<Filter>,
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
        token_lower: None,
        token_upper: None,
        filters: Vec::new(),
    };
    for relation in relations {
        analysis.add(relation, markers)?;
    }
    analysis.finish()
}

impl Analysis<'_> {
    fn add(&mut self, relation: &Relation, markers: &mut Markers) -> Result<(), QueryError> {
        match relation {
            Relation::Column { column: name, operator, value } => {
                let def = column(self.table, name)?.clone();
                let source = Source::resolve(value, &def.ty, name, markers)?;
                if matches!(source, Source::Constant(None)) {
                    return Err(invalid!("Invalid null value in condition for column {name}"));
                }
                match (def.kind, operator) {
                    (_, Operator::NotEqual) => {
                        return Err(invalid!("Unsupported \"!=\" relation: {name} != {value}"));
                    }
                    (ColumnKind::PartitionKey(at), Operator::Equal) => {
                        set_once(&mut self.keys[at as usize], OneOf::Equal(source), name)?;
                    }
                    (ColumnKind::Clustering(at), Operator::Equal) => {
                        set_once(&mut self.clustering[at as usize], OneOf::Equal(source), name)?;
                    }
                    (ColumnKind::Clustering(at), operator) => {
                        self.range_end(at as usize, *operator, vec![source], name)?;
                    }
                    (_, operator) => self.filters.push(Filter { column: def, operator: *operator, value: source }),
                }
            }
            Relation::In { column: name, values } => {
                let def = column(self.table, name)?.clone();
                let one = match values {
                    InValues::Terms(terms) => OneOf::In(
                        terms
                            .iter()
                            .map(|term| Source::resolve(term, &def.ty, name, markers))
                            .collect::<Result<_, _>>()?,
                    ),
                    InValues::Marker(marker) => {
                        let list = Term::Marker(*marker);
                        let ty = CqlType::list(def.ty.clone());
                        OneOf::InList(Source::resolve(&list, &ty, &format!("in({name})"), markers)?)
                    }
                };
                match def.kind {
                    ColumnKind::PartitionKey(at) => set_once(&mut self.keys[at as usize], one, name)?,
                    ColumnKind::Clustering(at) => set_once(&mut self.clustering[at as usize], one, name)?,
                    _ => {
                        return Err(invalid!("IN predicates on non-primary-key columns ({name}) is not yet supported"));
                    }
                }
            }
            Relation::Tuple { columns, operator, value } => {
                let (first, defs) = self.clustering_run(columns)?;
                let Term::Tuple(terms) = value else {
                    return Err(invalid!("A tuple of {} values is expected for ({})", defs.len(), columns.join(", ")));
                };
                let sources = self.tuple(terms, &defs, markers)?;
                match operator {
                    Operator::Equal => {
                        for (at, source) in sources.into_iter().enumerate() {
                            set_once(&mut self.clustering[first + at], OneOf::Equal(source), &columns[at])?;
                        }
                    }
                    operator => {
                        if defs.windows(2).any(|pair| pair[0].descending != pair[1].descending) {
                            return Err(invalid!(
                                "A range over ({}), whose orders differ, is not supported yet",
                                columns.join(", ")
                            ));
                        }
                        self.range_end(first, *operator, sources, &columns.join(", "))?;
                    }
                }
            }
            Relation::TupleIn { columns, values } => {
                let (first, defs) = self.clustering_run(columns)?;
                let InValues::Terms(terms) = values else {
                    return Err(invalid!("A bound list of tuples is not supported yet; write the tuples out"));
                };
                let mut tuples = Vec::new();
                for term in terms {
                    let Term::Tuple(items) = term else {
                        return Err(invalid!("A tuple is expected, not {term}"));
                    };
                    tuples.push(self.tuple(items, &defs, markers)?);
                }
                if self.tuples.replace((first, tuples)).is_some() {
                    return Err(invalid!("({}) cannot be restricted by more than one IN", columns.join(", ")));
                }
            }
            Relation::Token { columns, operator, value } => self.token(columns, *operator, value, markers)?,
            Relation::Contains { column, .. } => {
                return Err(invalid!("CONTAINS on column {column} is not supported yet"));
            }
            Relation::Element { column, .. } => {
                return Err(invalid!("A condition on an element of {column} is not supported yet"));
            }
            Relation::IsNotNull { column } => {
                return Err(invalid!("Unsupported restriction: {column} IS NOT NULL"));
            }
            Relation::Like { column, .. } => {
                return Err(invalid!(
                    "LIKE restriction is only supported on properly indexed columns. {column} is not"
                ));
            }
        }
        Ok(())
    }

    fn tuple(&self, terms: &[Term], defs: &[ColumnDef], markers: &mut Markers) -> Result<Vec<Source>, QueryError> {
        if terms.len() != defs.len() {
            return Err(invalid!("Expected {} elements in value tuple, but got {}", defs.len(), terms.len()));
        }
        terms.iter().zip(defs).map(|(term, def)| Source::resolve(term, &def.ty, &def.name, markers)).collect()
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

    fn range_end(&mut self, at: usize, operator: Operator, values: Vec<Source>, name: &str) -> Result<(), QueryError> {
        let inclusive = matches!(operator, Operator::LessOrEqual | Operator::GreaterOrEqual);
        let (end, what) = match operator {
            Operator::Less | Operator::LessOrEqual => (&mut self.upper, "end"),
            _ => (&mut self.lower, "start"),
        };
        if end.replace((at, RangeEnd { values, inclusive })).is_some() {
            return Err(invalid!("More than one restriction was found for the {what} bound on {name}"));
        }
        Ok(())
    }

    fn token(
        &mut self,
        columns: &[String],
        operator: Operator,
        value: &Term,
        markers: &mut Markers,
    ) -> Result<(), QueryError> {
        let names = self.table.partition_key.iter().map(|column| &column.name);
        if !names.eq(columns) {
            return Err(invalid!(
                "The token function arguments must be in the partition key order: {}",
                self.table.partition_key.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
            ));
        }
        let source = match value {
            Term::Function { name, arguments } if name.name.eq_ignore_ascii_case("token") => {
                let mut parts = Vec::new();
                for (argument, column) in arguments.iter().zip(&self.table.partition_key) {
                    match Source::resolve(argument, &column.ty, &column.name, markers)? {
                        Source::Constant(Some(bytes)) => parts.push(bytes),
                        _ => return Err(invalid!("token() of bound values is not supported here yet")),
                    }
                }
                let key = serialize_partition_key(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
                Source::Constant(Some(Token::of_key(&key).0.to_be_bytes().to_vec()))
            }
            value => Source::resolve(value, &CqlType::BigInt, "partition key token", markers)?,
        };
        let inclusive = matches!(operator, Operator::LessOrEqual | Operator::GreaterOrEqual | Operator::Equal);
        let twice = || invalid!("More than one restriction was found for a bound on token");
        if matches!(operator, Operator::Less | Operator::LessOrEqual | Operator::Equal)
            && self.token_upper.replace((source.clone(), inclusive)).is_some()
        {
            return Err(twice());
        }
        if matches!(operator, Operator::Greater | Operator::GreaterOrEqual | Operator::Equal)
            && self.token_lower.replace((source, inclusive)).is_some()
        {
            return Err(twice());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Restrictions, QueryError> {
        let table = self.table;
        let given = self.keys.iter().filter(|key| key.is_some()).count();
        let by_token = self.token_lower.is_some() || self.token_upper.is_some();
        let partition = if given == self.keys.len() {
            if by_token {
                return Err(invalid!("Columns and token() of them cannot be restricted together"));
            }
            let components: Vec<OneOf> = self.keys.iter_mut().filter_map(Option::take).collect();
            PartitionPlan::Keys(KeyPlan {
                components,
                names: table.partition_key.iter().map(|column| column.name.clone()).collect(),
            })
        } else {
            for (at, key) in self.keys.iter_mut().enumerate() {
                match key.take() {
                    None => {}
                    Some(OneOf::Equal(value)) => {
                        let column = table.partition_key[at].clone();
                        self.filters.push(Filter { column, operator: Operator::Equal, value });
                    }
                    Some(_) => return Err(filtering()),
                }
            }
            PartitionPlan::Tokens { lower: self.token_lower.take(), upper: self.token_upper.take() }
        };
        let slices = self.slice_plan()?;
        Ok(Restrictions { partition, slices, filters: self.filters })
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
        if let Some((first, tuples)) = self.tuples.take() {
            if first != at {
                return Err(invalid!("The columns before a tuple IN must be restricted by ="));
            }
            plan.tuples = Some(tuples);
        }
        for (is_lower, end) in [(true, self.lower.take()), (false, self.upper.take())] {
            let Some((first, range)) = end else { continue };
            if first < at {
                return Err(invalid!(
                    "Column \"{}\" cannot be restricted by both an equality and an inequality relation",
                    table.clustering[first].name
                ));
            }
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
            let [value] = <[Source; 1]>::try_from(range.values).map_err(|_| filtering())?;
            self.filters.push(Filter { column: table.clustering[first].clone(), operator, value });
        }
        for (at, one) in self.clustering.iter_mut().enumerate() {
            match one.take() {
                None => {}
                Some(OneOf::Equal(value)) => {
                    let column = table.clustering[at].clone();
                    self.filters.push(Filter { column, operator: Operator::Equal, value });
                }
                Some(_) => return Err(filtering()),
            }
        }
        Ok(plan)
    }
}

fn set_once(place: &mut Option<OneOf>, one: OneOf, name: &str) -> Result<(), QueryError> {
    match place.replace(one) {
        None => Ok(()),
        Some(_) => Err(invalid!("{name} cannot be restricted by more than one relation if it includes an Equal")),
    }
}

pub(crate) fn filtering() -> QueryError {
    invalid!(
        "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. \
         If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING"
    )
}
