// Package contract tests an agent, in whatever language, against the runtime
// protocol: it plays the node with raw framed bytes and watches what the agent
// does. docs/build-agents/agent-protocol.md is the protocol for its readers.
//
// There are two kinds of checks. A transcript starts a fresh agent process and
// plays one file of transcripts/; those in transcripts/reference run only
// against an agent that offers the tools that they need. A watch has no process
// of its own: it looks at every message of all the transcripts for what must
// hold always, such as one result per call.
//
// # Transcripts
//
// A transcript is a txtar archive. Its comment says what is checked; lines that
// start with "#" name the specification lines ("# OS-4.4.2.1") and the tools
// that are needed ("# needs: sleep"). Its file "script" is played line by line
// against the running agent:
//
//	session: OPTIONS       the handshake up to core.tools.registered; OPTIONS may
//	                       be {"heartbeat_interval_ms": …, "max_frame_bytes": …}
//	again:                 a new process and session, if the agent has closed
//
//	core: MESSAGE          the node sends it; v, id and ts are filled in
//	core-slow: MESSAGE     likewise, one byte a write
//	core-lines: MESSAGE    likewise, the JSON spread over many lines
//	core-padded: N MESSAGE likewise, blanks make it N bytes of payload
//	core-burst: N MESSAGE  likewise, N times in one write; $N is 1 to N
//	core-raw: TEXT         the node sends a frame of exactly this text
//	core-bytes: HEX        the node sends these bytes, unframed
//
//	agent: PATTERN | …     the agent sends a message that one pattern matches
//	agent-each: N PATTERN  the agent sends N of them, in any order; $N is 1 to N
//	agent-or-closed: …     as agent, or it closes the connection instead
//	agent-or-skip: …       as agent, but without it the check is skipped
//	never: PATTERN         from here on the agent sends no such message
//	silent: DURATION       the agent says nothing but heartbeats
//	listen: DURATION       reads whatever comes, for the watches
//	alive:                 the agent answers a call of a tool that it lacks
//	alive-or-closed:       likewise, or it has closed the connection
//	closed:                the agent closes the connection
//
//	unread: N              waits until N bytes of the agent wait to be read
//	eof:                   the node sends no more, but goes on reading
//	hangup:                the node closes the connection
//	signal: TERM           the agent's process group gets the signal
//	exit: DURATION         the agent's process ends in time
//	within: DURATION       how long each further step may wait
//	misuse:                calls every tool with inputs that break its schema
//	file: PATH SIZE        the agent has written such a file in its directory
//
// A pattern is JSON: what it names must be there, whatever else may be. A
// string in it can be "$any", "$absent", "$string", "$uuid", "$ts", "$int" (not
// negative), "$object" or "$array"; "~…" is a regular expression for the whole
// string. Messages that no step asks for are skipped, except that another
// answer to the same call or message is a failure at once.
//
// A name in capitals stands for text: $AGENT, $VERSION and $TOKEN are known,
// $HELLO, $SESSION, $REGISTER and $TOOLS (a JSON array) are after a handshake;
// $LONG is a long text, $WIDE a long array and $DEEP a deeply nested object.
// Any other name is made up, a UUID, where the node says it first, and learnt
// where the agent does.
package contract
