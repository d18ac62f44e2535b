// Package v20170312 has the names that flannel's backend `tencent-vpc` uses, and no cloud: each request fails.
package v20170312

import "errors"

var errNone = errors.New("the lab's flannel has no backend tencent-vpc")

// Client of the cloud.
type Client struct{}

// Filter of a request.
type Filter struct {
	Name   *string
	Values []*string
}

// Route of a table.
type Route struct {
	RouteId                                                 *uint64
	DestinationCidrBlock, GatewayId, GatewayType, RouteType *string
	Enabled                                                 *bool
}

// RouteTable of a network.
type RouteTable struct {
	RouteTableId *string
	RouteSet     []*Route
}

// DescribeRouteTablesRequest asks for tables.
type DescribeRouteTablesRequest struct{ Filters []*Filter }

// DescribeRouteTablesResponse is its answer.
type DescribeRouteTablesResponse struct {
	Response *struct{ RouteTableSet []*RouteTable }
}

// RoutesRequest creates or deletes routes.
type RoutesRequest struct {
	RouteTableId *string
	Routes       []*Route
}

// NewClientWithSecretId returns a client.
func NewClientWithSecretId(_, _, _ string) (*Client, error) { return nil, errNone }

// NewDescribeRouteTablesRequest returns an empty request.
func NewDescribeRouteTablesRequest() *DescribeRouteTablesRequest {
	return &DescribeRouteTablesRequest{}
}

// NewCreateRoutesRequest returns an empty request.
func NewCreateRoutesRequest() *RoutesRequest { return &RoutesRequest{} }

// NewDeleteRoutesRequest returns an empty request.
func NewDeleteRoutesRequest() *RoutesRequest { return &RoutesRequest{} }

// DescribeRouteTables fails.
func (*Client) DescribeRouteTables(*DescribeRouteTablesRequest) (*DescribeRouteTablesResponse, error) {
	return nil, errNone
}

// CreateRoutes fails.
func (*Client) CreateRoutes(*RoutesRequest) (any, error) { return nil, errNone }

// DeleteRoutes fails.
func (*Client) DeleteRoutes(*RoutesRequest) (any, error) { return nil, errNone }
