module github.com/fencelock/fencelock/store/zkstore

go 1.26.0

require (
	github.com/fencelock/fencelock v0.1.0
	github.com/go-zookeeper/zk v1.0.4
)
