import { type Static, Type } from 'typebox'
import { EXPIRES_AT_EXPECTED, EXPIRES_IN_DAYS_EXPECTED, NAME_EXPECTED } from '../../domain/issue-key.ts'

/** Schemas say what a field is made of; what it may say is decided by the plan in the domain, in the same words. */
const closed = { additionalProperties: false }

export const issueBody = Type.Object(
  {
    name: Type.String(),
    scopes: Type.Array(Type.String()),
    expiresInDays: Type.Optional(Type.Number()),
    expiresAt: Type.Optional(Type.String()),
  },
  closed,
)
export type IssueBody = Static<typeof issueBody>

/** Nothing to say; an empty object is what some clients send when they have nothing to say. */
export const emptyBody = Type.Unsafe<object | null>({ type: ['object', 'null'], ...closed })

export const listQuery = Type.Object(
  {
    // All of a query is text. 1 to 200, in plain digits.
    limit: Type.Optional(Type.String({ pattern: '^(?:[1-9][0-9]?|1[0-9][0-9]|200)$' })),
    cursor: Type.Optional(Type.String({ pattern: '^key_[0-9A-HJKMNP-TV-Z]{26}$' })),
  },
  closed,
)
export type ListQuery = Static<typeof listQuery>

/** What each field must be, in words that follow `must be`. */
export const EXPECTED: Readonly<Record<string, string>> = {
  name: NAME_EXPECTED,
  scopes: 'a list of scopes',
  expiresInDays: EXPIRES_IN_DAYS_EXPECTED,
  expiresAt: EXPIRES_AT_EXPECTED,
  limit: 'a whole number from 1 to 200, once',
  cursor: 'the cursor of an earlier answer, once',
  workspaceId: '1 to 128 characters of A-Z, a-z, 0-9 and "-", ".", "_", "~"',
}
