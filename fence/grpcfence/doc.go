// SPDX-License-Identifier: Apache-2.0

// Package grpcfence carries a token over gRPC, from the holder of a lock to the service
// that keeps what the lock protects. Its interceptors do the work, on both sides:
//
//	holder                                    service
//	lease in ctx ─▶ client interceptor ─▶ fencing-token: orders%2F42;512 ─▶ server interceptor ─▶ your handler ─▶ storage
//	ErrStale     ◀─                    ◀─ Aborted, with ErrorInfo        ◀─                    ◀─ ErrStale     ◀─ guard decides
//
//	conn, err := grpc.NewClient(target, …,
//		grpc.WithChainUnaryInterceptor(grpcfence.UnaryClientInterceptor(nil)),
//		grpc.WithChainStreamInterceptor(grpcfence.StreamClientInterceptor(nil)))
//
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(grpcfence.UnaryServerInterceptor(nil)),
//		grpc.ChainStreamInterceptor(grpcfence.StreamServerInterceptor(nil)))
//
// # The interceptors are no guard
//
// They carry the token and remember none. The handler passes its context on to a guard at
// its storage, such as sqlfence or redisfence, and returns the error of the guard as it is.
// A check in the interceptor would be a check before the act: a newer holder can come in
// between. Package fencetest rejects a service whose storage has no guard.
//
// # Statuses
//
//	Aborted             a stale token
//	FailedPrecondition  no token, or the token of another lock
//	InvalidArgument     a token that cannot be read, or several of them
//
// The client interceptor turns them into fence.ErrStale, fence.ErrNoToken and
// fence.ErrWrongLock again; status.Code still returns the code. A detail of type ErrorInfo
// distinguishes them from the same codes with another meaning. Aborted is the code for a
// failed check of a sequencer, as tokens are called elsewhere, and means: begin again at a higher
// level, which is to lock again and to read again. The same call with the same token is rejected each time.
//
// To the client they mean that nothing was changed. A handler that writes more than once returns the error of
// its first write as it is; after that, it returns another error, or puts all writes behind one step of the guard.
//
// # Calls that are sent again
//
// A call that is sent again without the caller's knowledge can be rejected although the
// first one was admitted: its answer got lost, and a newer holder entered in between. So
// the client interceptors disable the retry policy of a service config for calls with a
// token. Other clients send grpc-previous-rpc-attempts when they try again; the server
// interceptors then answer a stale token with Unknown, not with a rejection. Interceptors that retry, and
// proxies, may send neither: configure them not to resend writes.
//
// # A token goes one hop
//
// Metadata of an incoming call is not sent on. A handler that calls another service for
// its caller names the lock in Options.Lock of that client. Otherwise a client sends the mark of the
// innermost lease, or of fence.With, that this process added itself. Give the interceptors to those
// connections only whose servers may have the token: who has it can use it.
//
// # The metadata is believed
//
// A client that may call the service may send any token, and a token that is too high shuts
// all other clients out until the fence is set back by hand. Let only those call who may
// hold the lock, and authenticate before the handler.
package grpcfence
