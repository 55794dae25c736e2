// Package parquet is a part of record.
package parquet
