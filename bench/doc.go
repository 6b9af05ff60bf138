// Package bench measures whole jobs. What single rooms cost is measured beside
// their code; docs/develop/benchmarks.md lists it all.
package bench
