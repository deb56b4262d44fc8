import { Type } from 'typebox'
import { type AdminCall, declareCalls } from '../platform/http/admin-call.ts'

const adminCall = declareCalls<{ readonly document: Readonly<Record<string, unknown>> }>()

/** The document of the admin API, without the prefix. Like the paths themselves, only callers with a token or session see it. */
export const OPENAPI_CALLS: readonly AdminCall<{ readonly document: Readonly<Record<string, unknown>> }>[] = [
  adminCall({
    id: 'describeAdminApi',
    method: 'GET',
    url: '/openapi.json',
    operation: 'openapi',
    permission: null,
    workspaces: 'own',
    summary: 'This document',
    status: 200,
    response: Type.Record(Type.String(), Type.Unknown()),
    handle: async ({ document }) => document,
  }),
]
