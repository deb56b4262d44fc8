/** Of a route in `routes`; counts of requests name it. */
export const ROUTE_NAME = /^[a-z][a-z0-9-]{0,31}$/
