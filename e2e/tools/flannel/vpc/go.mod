// Stands for the library of a cloud that flannel's backend `tencent-vpc` calls.
module github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/vpc

go 1.26.0
