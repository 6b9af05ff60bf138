package store

// PruneBatch is how much one transaction of a Prune deletes.
const PruneBatch = pruneBatch

// NamedBy finds the requests that a name means.
const NamedBy = namedBy
