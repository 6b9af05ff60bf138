// Package house holds the rules of who may import whom; its test holds them
// against the code. It has nothing to import.
package house
