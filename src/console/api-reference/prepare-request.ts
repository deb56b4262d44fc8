import { isWorkspaceId, WORKSPACE_ID_EXPECTED } from '../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import { type RouteConfig, WORKSPACE_PARAMETER } from '../../domain/route/route.ts'
import { type FormFields, textField } from '../platform/html/form-parts.ts'

/** The characters of a bearer token (RFC 6750, section 2.1). */
const TOKEN = /^[A-Za-z0-9._~+/-]{1,512}=*$/
const PARAMETER = /\{([^{}]+)\}/g
const MAX_VALUE_LENGTH = 512

/** A request to the API. */
export interface PreparedRequest {
  /** The route's path with its parameters filled in. */
  readonly path: string
  /** Without its question mark. */
  readonly query: string
  readonly key: string
}

type Preparation =
  | { readonly ok: true; readonly request: PreparedRequest }
  /** What the person has to do. */
  | { readonly ok: false; readonly problem: string }

/** The name of the field with the value of a parameter. */
export function fieldOf(route: string, parameter: string): string {
  return `${route}.${parameter}`
}

interface RequestPlace {
  readonly route: RouteConfig
  readonly workspaceId: string
  readonly keyPrefix: string
}

/**
 * Builds the request from the configured route, the workspace of the page and the values of its parameters. The gateway checks
 * the values of the query: its response to a wrong one is what a person wants to see.
 */
export function prepareRequest(
  { route, workspaceId, keyPrefix }: RequestPlace,
  fields: FormFields,
): Preparation {
  const key = plainPasted(textField(fields, 'key'))
  if (key === '') return { ok: false, problem: 'Paste a key above first.' }
  if (!TOKEN.test(key)) return { ok: false, problem: 'The pasted text is no key: it has other characters.' }
  const textOf = (name: string) =>
    name === WORKSPACE_PARAMETER ? workspaceId : textField(fields, fieldOf(route.name, name)).trim()
  const names = [...route.path.matchAll(PARAMETER)].map(([, name = '']) => name)
  const misplaced = [...names, ...Object.keys(route.query ?? {})].find(name =>
    holdsKeyForm(textOf(name), keyPrefix),
  )
  if (misplaced !== undefined)
    return { ok: false, problem: `Paste the key into its own field, not into ${misplaced}.` }
  for (const name of names) {
    if (textOf(name) === '') return { ok: false, problem: `Enter a value for ${name}.` }
    if (!isWorkspaceId(textOf(name)))
      return { ok: false, problem: `${name} must be ${WORKSPACE_ID_EXPECTED}` }
  }
  const path = route.path.replace(PARAMETER, (_, name: string) => textOf(name))
  const query = new URLSearchParams()
  for (const name of Object.keys(route.query ?? {})) {
    const value = textOf(name).slice(0, MAX_VALUE_LENGTH)
    if (value !== '') query.set(name, value)
  }
  return { ok: true, request: { path, query: query.toString(), key } }
}
