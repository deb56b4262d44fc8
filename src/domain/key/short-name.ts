/** The name of a route, of a rate limit policy or of a plan. */
export const SHORT_NAME = /^[a-z][a-z0-9-]{0,31}$/
