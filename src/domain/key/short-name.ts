/** The name of a route, of a rate limit policy or of a plan. */
export const SHORT_NAME = /^[a-z][a-z0-9-]{0,31}$/
export const SHORT_NAME_EXPECTED =
  '1 to 32 lower-case letters, digits and hyphens, the first of them a letter'
