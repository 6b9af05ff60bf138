package schemas

import "reflect"

// Agrees reports whether results of the job type have an agreement hash, so
// that those of several providers can be compared.
func (s *Schema) Agrees() bool {
	_, ok := reflect.New(s.result).Interface().(interface{ agreement() any })
	return ok
}
