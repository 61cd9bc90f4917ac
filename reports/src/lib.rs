//! Run records into tables, plots and pages.
