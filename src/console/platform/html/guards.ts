import { requireManager, requirePersonOfForm } from './page-request.ts'
import { requirePerson } from './signed-in.ts'

const config = { operation: 'page' } as const

/** Options of routes that show something. */
export const SHOWS = { onRequest: [requirePerson], config }
/** Options of routes that ask before they change keys of the workspace of the path. */
export const CHANGE_FORMS = { onRequest: [requirePerson, requireManager], config }
/** Options of routes that change keys of the workspace of the path. */
export const CHANGES = { onRequest: [requirePersonOfForm, requireManager], config }
