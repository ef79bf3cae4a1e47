# A cluster for trying out and for tests: one copy of everything, small caches, nothing that phones home.
[global]
fsid = @FSID@
mon host = [v2:127.0.0.1:@PORT@,v1:127.0.0.1:@PORT1@]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind port min = @LOW@
ms bind port max = @HIGH@
debug ms = 0/0
debug rocksdb = 0/0
debug bluestore = 0/0
debug bluefs = 0/0
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
keyring = @DIR@/keyring
run dir = @DIR@/run
admin socket = @DIR@/run/$type.$id.asok
pid file = @DIR@/run/$type.$id.pid
log file = @DIR@/log/$type.$id.log
crash dir = @DIR@/crash
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon allow pool delete = true
mon warn on pool no redundancy = false
mon data avail warn = 2
mon data avail crit = 1
mon max pg per osd = 1000
[client]
admin socket =
log file = /dev/null
[mon]
mon data = @DIR@/mon
mon cluster log file = @DIR@/log/cluster.log
[mgr]
mgr data = @DIR@/mgr
mgr stats period = 1
mgr initial modules =
mgr disabled modules = alerts diskprediction_local influx insights iostat localpool mirroring nfs osd_perf_query osd_support prometheus restful selftest snap_schedule stats telegraf test_orchestrator zabbix
[osd]
osd data = @DIR@/osd.$id
osd objectstore = bluestore
bluestore block size = 10737418240
bluestore cache autotune = false
bluestore cache size = 67108864
osd mclock profile = high_client_ops
