package server

import (
	"github.com/lightwork-market/lightwork/relay/nip01"
)

// send queues a message and drops the client if its queue is full.
func (c *client) send(f frame) {
	if !c.out.push(f) {
		c.drop(errSlowReader)
	}
}

// sendNow is send, but writes the message at once if nothing waits before it
// and the kernel takes it: that costs less than to wake the client's writer.
// scratch is room for the message.
func (c *client) sendNow(f frame, scratch *[]byte) {
	if !c.out.claim(f) {
		c.send(f)
		return
	}

	switch c.wire.try(f.framed(scratch)) {
	case written:
		c.out.done(f)
	case begun:
		f.begun = true
		c.out.putBack(f)
	default:
		c.out.putBack(f)
	}
}

func (c *client) ok(id string, accepted bool, text string) {
	if !accepted {
		c.srv.metrics.refuse(nip01.LabelOK, text)
	}
	c.send(frame{text: nip01.AppendOK(nil, id, accepted, text)})
}

func (c *client) closed(subID, text string) {
	c.srv.metrics.refuse(nip01.LabelClosed, text)
	c.send(frame{text: nip01.AppendLabelled(nil, nip01.LabelClosed, subID, text)})
}

// negError refuses a synchronisation in the form of NIP-77.
func (c *client) negError(subID, text string) {
	c.srv.metrics.refuse(nip01.LabelNegError, text)
	c.send(frame{text: nip01.AppendLabelled(nil, nip01.LabelNegError, subID, text)})
}

func (c *client) notice(text string) {
	c.srv.metrics.refuse(nip01.LabelNotice, text)
	c.send(frame{text: nip01.AppendLabelled(nil, nip01.LabelNotice, text)})
}

// refuse answers in the form that belongs to the message, or with a NOTICE
// where it is too broken to tell.
func (c *client) refuse(m *nip01.ClientMessage, reason string) {
	switch {
	case m.SubID != "" && (m.Label == nip01.LabelNegOpen || m.Label == nip01.LabelNegMessage):
		c.negError(m.SubID, "blocked: this relay has no negentropy (NIP-77), ask with REQ")
	case m.Event.ID != "":
		c.ok(m.Event.ID, false, reason)
	case m.SubID != "" && m.Label != nip01.LabelClose:
		c.closed(m.SubID, reason)
	default:
		c.notice(reason)
	}
}
