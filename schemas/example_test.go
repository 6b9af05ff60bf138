package schemas_test

import (
	"fmt"

	"github.com/lightwork-market/lightwork/schemas"
)

// A request is parsed strictly, and its defaults are filled before it is hashed:
// so both sides of a job find the same job_hash.
func ExampleSchema_ParseRequest() {
	s, ok := schemas.Lookup("oa.embedding.v1")
	if !ok {
		fmt.Println("no such job type")
		return
	}
	req, err := s.ParseRequest([]byte(`{"texts": ["a text"]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(req.Value.(*schemas.EmbeddingRequest).Texts)
	fmt.Println(req.JobHash)

	_, err = s.ParseRequest([]byte(`{"texts": ["a text"], "model": "best"}`))
	fmt.Println(err)
	// Output:
	// [a text]
	// sha256:11a2844ac9430fdfb1bdd222251410659f2f42eb924a71a14db3c9144507af7b
	// model: is not a field of this schema
}

// What breaks the schema is named by its field.
func ExampleSchema_ParseRequest_refused() {
	s, _ := schemas.Lookup("oa.sandbox_run.v1")
	_, err := s.ParseRequest([]byte(`{"sandbox": {"image_digest": "latest"}, "commands": [{"cmd": "make test"}]}`))
	fmt.Println(err)
	// Output: sandbox.image_digest: must match ^sha256:[0-9a-f]{64}$
}
