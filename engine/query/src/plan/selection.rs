//! What a SELECT gives of the rows: columns, functions, casts, aggregates.
//!
//! A selection with aggregates or GROUP BY is evaluated once a group: whatever depends on rows is then taken out of
//! the expressions as an [`Aggregation`] of its own, a plain column as the group's first.

use cql::ast::{self, QualifiedName, Selection, Selector};
use types::json::json_name;
use types::{AggregateDef, ColumnDef, ColumnKind, CqlType, TableDef};

use super::functions::{Argument, choose};
use super::restrictions::column;
use super::{Function, Markers, Source, UserAggregate};
use crate::error::{QueryError, invalid};

/// What one column of the result is made of.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    PartitionKey(u16),
    Clustering(u16),
    Static(u16),
    Regular(u16),
    WriteTime {
        is_static: bool,
        index: u16,
        part: Option<Part>,
    },
    Ttl {
        is_static: bool,
        index: u16,
        part: Option<Part>,
    },
    /// An element of a collection, or a field of a user type, of this type.
    Part {
        of: Box<Expression>,
        ty: CqlType,
        part: Part,
    },
    /// Of the whole partition key.
    Token,
    Term(Source),
    Call(Function, Vec<Expression>),
    Cast {
        from: CqlType,
        to: CqlType,
        argument: Box<Expression>,
    },
    /// One JSON object with a member for each part: its name as JSON, its type, its value.
    Json(Vec<(String, CqlType, Expression)>),
    /// The result of an aggregation over the group, by its place in the selection's list.
    Grouped(u16),
}

/// One element of a column's value.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Of a map its value, of a set the element itself, of a list by its index.
    Element(Source),
    /// Of a map or a set what lies between, the ends included.
    Slice(Option<Source>, Option<Source>),
    Field(u16),
}

/// What is made of all rows of a group.
#[derive(Clone, Debug)]
pub(crate) enum Aggregate {
    /// Rows, or values that are not null.
    Count,
    Min(CqlType),
    Max(CqlType),
    Sum(CqlType),
    Average(CqlType),
    /// The value in the first row.
    First,
    User(Box<UserAggregate>),
}

#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    pub aggregate: Aggregate,
    /// Of each row; without any, rows are counted.
    pub arguments: Vec<Expression>,
}

#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub name: String,
    pub ty: CqlType,
    pub expression: Expression,
}

/// The columns of the result, and what is gathered over rows for them.
#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    pub outputs: Vec<Output>,
    /// Empty where each row of the table is a row of the result.
    pub aggregations: Vec<Aggregation>,
    pub has_aggregates: bool,
}

/// Resolves a selection. `grouped`: there is a GROUP BY, so that each result row stands for several rows.
pub(super) fn resolve(
    table: &TableDef,
    selection: &Selection,
    grouped: bool,
    markers: &mut Markers,
) -> Result<Outputs, QueryError> {
    let mut resolver = Resolver { table, markers, aggregations: Vec::new(), in_aggregate: false };
    let mut outputs = Vec::new();
    match selection {
        Selection::All => {
            for def in table.columns() {
                outputs.push(Output { name: def.name.clone(), ty: def.ty.clone(), expression: place(table, def)? });
            }
        }
        Selection::Items(items) => {
            for item in items {
                let (expression, ty) = resolver.resolve(&item.selector)?;
                let name = item.alias.clone().unwrap_or_else(|| name_of(&item.selector, &expression));
                outputs.push(Output { name, ty, expression });
            }
        }
    }
    let mut aggregations = resolver.aggregations;
    let has_aggregates = !aggregations.is_empty();
    if has_aggregates || grouped {
        for output in &mut outputs {
            take_firsts(&mut output.expression, &mut aggregations);
        }
    }
    Ok(Outputs { outputs, aggregations, has_aggregates })
}

/// `SELECT JSON`: the outputs become members of one object.
pub(super) fn as_json(outputs: Vec<Output>) -> Output {
    let member = |output: Output| (json_name(&output.name), output.ty, output.expression);
    let expression = Expression::Json(outputs.into_iter().map(member).collect());
    Output { name: "[json]".to_string(), ty: CqlType::Text, expression }
}

/// Replaces what is read from a row by the group's first.
fn take_firsts(expression: &mut Expression, aggregations: &mut Vec<Aggregation>) {
    match expression {
        Expression::Term(_) | Expression::Grouped(_) => {}
        Expression::Call(_, arguments) => {
            arguments.iter_mut().for_each(|argument| take_firsts(argument, aggregations));
        }
        Expression::Cast { argument, .. } => take_firsts(argument, aggregations),
        Expression::Part { of, .. } => take_firsts(of, aggregations),
        Expression::Json(members) => members.iter_mut().for_each(|(.., value)| take_firsts(value, aggregations)),
        Expression::PartitionKey(_)
        | Expression::Clustering(_)
        | Expression::Static(_)
        | Expression::Regular(_)
        | Expression::WriteTime { .. }
        | Expression::Ttl { .. }
        | Expression::Token => {
            let place = Expression::Grouped(aggregations.len() as u16);
            let of_row = std::mem::replace(expression, place);
            aggregations.push(Aggregation { aggregate: Aggregate::First, arguments: vec![of_row] });
        }
    }
}

/// Native functions show their keyspace, `count(*)` and the special ones do not.
fn name_of(selector: &Selector, expression: &Expression) -> String {
    let listed = |arguments: &[Selector], expressions: &[Expression]| {
        let names = arguments.iter().zip(expressions).map(|(argument, expression)| name_of(argument, expression));
        names.collect::<Vec<_>>().join(", ")
    };
    match (selector, expression) {
        (Selector::Function { name, arguments }, Expression::Call(Function::Operation(_), expressions)) => {
            let names = arguments.iter().zip(expressions).map(|(argument, expression)| name_of(argument, expression));
            ast::operation(&name.name, names, arguments.iter().map(Selector::is_sum))
        }
        // Under the name that it was called by: native functions have several.
        (Selector::Function { name, arguments }, Expression::Call(Function::Native(_), expressions)) => {
            format!("system.{}({})", name.name.to_ascii_lowercase(), listed(arguments, expressions))
        }
        (Selector::Function { arguments, .. }, Expression::Call(function, expressions)) => {
            format!("{}({})", function.name(), listed(arguments, expressions))
        }
        (Selector::Term(_), Expression::Call(function, _)) => function.name(),
        (Selector::Function { name, .. }, _) if name.keyspace.is_none() => format!("system.{selector}"),
        // To the type that it has: nothing is cast.
        (Selector::Cast { selector, .. }, expression) if !matches!(expression, Expression::Cast { .. }) => {
            name_of(selector, expression)
        }
        _ => selector.to_string(),
    }
}

fn place(table: &TableDef, def: &ColumnDef) -> Result<Expression, QueryError> {
    let missing = || invalid!("Undefined column name {}", def.name);
    Ok(match def.kind {
        ColumnKind::PartitionKey(at) => Expression::PartitionKey(at),
        ColumnKind::Clustering(at) => Expression::Clustering(at),
        ColumnKind::Static => Expression::Static(table.static_index(&def.name).ok_or_else(missing)? as u16),
        ColumnKind::Regular => Expression::Regular(table.regular_index(&def.name).ok_or_else(missing)? as u16),
    })
}

/// A field's position, and its type.
fn field_of(of: &Selector, ty: &CqlType, field: &str) -> Result<(Part, CqlType), QueryError> {
    let CqlType::Udt(udt) = ty.unfrozen() else {
        return Err(invalid!("Invalid field selection: {of} of type {ty} is not a user type"));
    };
    match udt.field_index(field) {
        Some(at) => Ok((Part::Field(at as u16), udt.fields[at].1.clone())),
        None => Err(invalid!("{of} of type {ty} has no field {field}")),
    }
}

struct Resolver<'a> {
    table: &'a TableDef,
    markers: &'a mut Markers,
    aggregations: Vec<Aggregation>,
    /// Within an aggregate's argument.
    in_aggregate: bool,
}

impl Resolver<'_> {
    fn resolve(&mut self, selector: &Selector) -> Result<(Expression, CqlType), QueryError> {
        match selector {
            Selector::Column(name) => {
                let def = column(self.table, name)?;
                Ok((place(self.table, def)?, def.ty.clone()))
            }
            Selector::CountRows => {
                let counted = self.aggregate(Aggregate::Count, Vec::new())?;
                Ok((counted, CqlType::BigInt))
            }
            Selector::WriteTime(of) | Selector::MaxWriteTime(of) => {
                let (is_static, index, part) = self.cell_of(of, "writetime")?;
                Ok((Expression::WriteTime { is_static, index, part }, CqlType::BigInt))
            }
            Selector::Ttl(of) => {
                let (is_static, index, part) = self.cell_of(of, "ttl")?;
                Ok((Expression::Ttl { is_static, index, part }, CqlType::Int))
            }
            Selector::Element { of, key } => {
                let (expression, ty) = self.resolve(of)?;
                let (part, result) = self.element(of, &ty, key)?;
                Ok((Expression::Part { of: Box::new(expression), ty, part }, result))
            }
            Selector::Slice { of, from, to } => {
                let (expression, ty) = self.resolve(of)?;
                let part = self.slice(of, &ty, from.as_ref(), to.as_ref())?;
                Ok((Expression::Part { of: Box::new(expression), ty: ty.clone(), part }, ty))
            }
            Selector::Field { of, field } => {
                let (expression, ty) = self.resolve(of)?;
                let (part, result) = field_of(of, &ty, field)?;
                Ok((Expression::Part { of: Box::new(expression), ty, part }, result))
            }
            Selector::Function { name, arguments } => self.call(name, arguments),
            Selector::Cast { selector, ty } => {
                let ty = &self.markers.find_type(ty)?;
                let (argument, from) = self.resolve(selector)?;
                if from.unfrozen() == ty.unfrozen() {
                    return Ok((argument, from));
                }
                if !from.can_cast(ty) {
                    return Err(invalid!("{selector} cannot be cast to {ty}"));
                }
                Ok((Expression::Cast { from, to: ty.clone(), argument: Box::new(argument) }, ty.clone()))
            }
            Selector::Term(term) => {
                let ty = super::functions::argument(term, self.markers).natural_type(self.markers);
                let ty = ty.ok_or_else(|| {
                    invalid!("Cannot infer type for term {term} in selection clause (try using a cast to force a type)")
                })?;
                Ok((Expression::Term(Source::resolve(term, &ty, "[selection]", self.markers)?), ty))
            }
        }
    }

    /// The key of an element, and the element's type.
    fn element(&mut self, of: &Selector, ty: &CqlType, key: &ast::Term) -> Result<(Part, CqlType), QueryError> {
        let what = if matches!(ty.unfrozen(), CqlType::Set(_)) { "value" } else { "key" };
        let (key_type, result) = match ty.unfrozen() {
            CqlType::Map(key, value) => (&**key, &**value),
            CqlType::Set(element) => (&**element, &**element),
            CqlType::List(element) => (&CqlType::Int, &**element),
            other => {
                return Err(invalid!("Invalid element selection: {of} is of type {other} is not a collection"));
            }
        };
        let key = Source::resolve(key, key_type, &format!("{what}({of})"), self.markers)?;
        Ok((Part::Element(key), result.clone()))
    }

    fn slice(
        &mut self,
        of: &Selector,
        ty: &CqlType,
        from: Option<&ast::Term>,
        to: Option<&ast::Term>,
    ) -> Result<Part, QueryError> {
        let key_type = match ty.unfrozen() {
            CqlType::Map(key, _) | CqlType::Set(key) => &**key,
            CqlType::List(_) => {
                return Err(invalid!("Slice selection is only allowed on sets and maps, but {of} is a list"));
            }
            other => return Err(invalid!("Invalid slice selection: {of} of type {other} is not a collection")),
        };
        let name = format!("key({of})");
        let mut end = |term: Option<&ast::Term>| {
            term.map(|term| Source::resolve(term, key_type, &name, self.markers)).transpose()
        };
        Ok(Part::Slice(end(from)?, end(to)?))
    }

    /// Whose timestamp or TTL: a column, an element or a field.
    fn cell_of(&mut self, of: &Selector, function: &str) -> Result<(bool, u16, Option<Part>), QueryError> {
        let (name, part) = match of {
            Selector::Column(name) => (name, None),
            Selector::Element { of: inner, key } => match &**inner {
                Selector::Column(name) => {
                    let ty = column(self.table, name)?.ty.clone();
                    if matches!(ty, CqlType::List(_)) {
                        return Err(invalid!(
                            "Element selection is only allowed on sets and maps, but {name} is a list: {function}({of})"
                        ));
                    }
                    (name, Some(self.element(inner, &ty, key)?.0))
                }
                _ => return Err(invalid!("Cannot use selection function {function} on {of}")),
            },
            Selector::Field { of: inner, field } => match &**inner {
                Selector::Column(name) => (name, Some(field_of(inner, &column(self.table, name)?.ty, field)?.0)),
                _ => return Err(invalid!("Cannot use selection function {function} on {of}")),
            },
            _ => return Err(invalid!("Cannot use selection function {function} on {of}")),
        };
        let def = column(self.table, name)?;
        let (is_static, index) = match place(self.table, def)? {
            Expression::Static(index) => (true, index),
            Expression::Regular(index) => (false, index),
            _ => return Err(invalid!("Cannot use selection function {function} on PRIMARY KEY part {name}")),
        };
        if def.ty.is_multi_cell() && part.is_none() {
            return Err(invalid!("Cannot use selection function {function} on non-frozen collection {name}"));
        }
        if def.ty.is_counter() {
            return Err(invalid!("Cannot use selection function {function} on counters"));
        }
        Ok((is_static, index, part))
    }

    fn aggregate(&mut self, aggregate: Aggregate, arguments: Vec<Expression>) -> Result<Expression, QueryError> {
        if self.in_aggregate {
            return Err(invalid!("aggregate functions cannot be used as arguments of aggregate functions"));
        }
        self.aggregations.push(Aggregation { aggregate, arguments });
        Ok(Expression::Grouped((self.aggregations.len() - 1) as u16))
    }

    fn call(&mut self, name: &QualifiedName, arguments: &[Selector]) -> Result<(Expression, CqlType), QueryError> {
        let lower = name.name.to_ascii_lowercase();
        let native = name.keyspace.as_deref().is_none_or(|keyspace| keyspace == "system");
        if native && lower == "token" {
            let names = arguments.iter().map(ToString::to_string);
            if names.eq(self.table.partition_key.iter().map(|column| column.name.clone())) {
                return Ok((Expression::Token, CqlType::BigInt));
            }
        }
        if let (true, "count" | "min" | "max" | "sum" | "avg", [argument]) = (native, lower.as_str(), arguments) {
            let (argument, ty) = match argument {
                Selector::Term(ast::Term::Marker(_)) => {
                    return Err(invalid!("Function {lower} is only valid when argument types are known"));
                }
                argument => self.aggregated(argument)?,
            };
            let (aggregate, result) = aggregate(&lower, ty)?;
            return Ok((self.aggregate(aggregate, vec![argument])?, result));
        }
        if let Some(found) = self.user_aggregate(name, arguments)? {
            return Ok(found);
        }
        let resolved = self.arguments(arguments)?;
        let (function, types) = choose(name, &given(arguments, &resolved), self.markers)?;
        let ty = function.result();
        let expressions = self.expressions(arguments, resolved, &types, &function.name())?;
        Ok((Expression::Call(function, expressions), ty))
    }

    /// An argument of an aggregate.
    fn aggregated(&mut self, argument: &Selector) -> Result<(Expression, CqlType), QueryError> {
        let was_inside = std::mem::replace(&mut self.in_aggregate, true);
        let resolved = self.resolve(argument);
        self.in_aggregate = was_inside;
        resolved
    }

    /// Arguments but terms, whose types depend on the function.
    fn arguments(&mut self, arguments: &[Selector]) -> Result<Vec<Option<(Expression, CqlType)>>, QueryError> {
        let one = |argument: &Selector| match argument {
            Selector::Term(term) if matches!(super::functions::argument(term, self.markers), Argument::Term(_)) => {
                Ok(None)
            }
            argument => self.resolve(argument).map(Some),
        };
        arguments.iter().map(one).collect()
    }

    fn expressions(
        &mut self,
        arguments: &[Selector],
        resolved: Vec<Option<(Expression, CqlType)>>,
        types: &[CqlType],
        function: &str,
    ) -> Result<Vec<Expression>, QueryError> {
        let mut expressions = Vec::with_capacity(arguments.len());
        for (at, ((argument, resolved), ty)) in arguments.iter().zip(resolved).zip(types).enumerate() {
            expressions.push(match (resolved, argument) {
                (Some((expression, _)), _) => expression,
                (None, Selector::Term(term)) => {
                    Expression::Term(Source::resolve(term, ty, &format!("arg{at}({function})"), self.markers)?)
                }
                (None, other) => self.resolve(other)?.0,
            });
        }
        Ok(expressions)
    }

    fn user_aggregate(
        &mut self,
        name: &QualifiedName,
        arguments: &[Selector],
    ) -> Result<Option<(Expression, CqlType)>, QueryError> {
        let named = UserAggregate::named(name, self.markers);
        if named.is_empty() {
            return Ok(None);
        }
        let was_inside = std::mem::replace(&mut self.in_aggregate, true);
        let resolved = self.arguments(arguments);
        self.in_aggregate = was_inside;
        let resolved = resolved?;
        let fits = |def: &&std::sync::Arc<AggregateDef>| {
            let given = given(arguments, &resolved);
            def.arguments.len() == given.len()
                && given.iter().zip(&def.arguments).all(|(given, ty)| given.fits(ty, self.markers))
        };
        let Some(def) = named.iter().find(fits) else {
            return Err(invalid!("Invalid call to function {name}, none of its type signatures match"));
        };
        let aggregate = UserAggregate::new(def, self.markers)?;
        let expressions = self.expressions(arguments, resolved, &def.arguments, &def.name)?;
        let result = aggregate.result();
        Ok(Some((self.aggregate(Aggregate::User(Box::new(aggregate)), expressions)?, result)))
    }
}

/// What is known of arguments before the function is.
fn given<'a>(arguments: &'a [Selector], resolved: &[Option<(Expression, CqlType)>]) -> Vec<Argument<'a>> {
    let one = |(argument, resolved): (&'a Selector, &Option<(Expression, CqlType)>)| match (resolved, argument) {
        (Some((_, ty)), _) => Argument::Typed(ty.clone()),
        (None, Selector::Term(term)) => Argument::Term(term),
        (None, _) => Argument::Term(&ast::Term::Null),
    };
    arguments.iter().zip(resolved).map(one).collect()
}

/// The aggregate over values of a type, and the type of its result.
fn aggregate(name: &str, ty: CqlType) -> Result<(Aggregate, CqlType), QueryError> {
    let total = if ty == CqlType::Counter { CqlType::BigInt } else { ty.clone() };
    Ok(match name {
        "count" => (Aggregate::Count, CqlType::BigInt),
        "min" => (Aggregate::Min(ty), total),
        "max" => (Aggregate::Max(ty), total),
        _ if !ty.is_number() => {
            return Err(invalid!(
                "Invalid call to function {name}, none of its type signatures match: {ty} is no number"
            ));
        }
        "sum" => (Aggregate::Sum(ty), total),
        _ => (Aggregate::Average(ty), total),
    })
}
