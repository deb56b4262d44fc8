import { requirePerson } from '../../sign-in/authenticate-people.ts'
import { requireManager, requirePersonOfForm } from './page-request.ts'

const config = { operation: 'page' } as const

/** Options of routes that show something. */
export const SHOWS = { preHandler: [requirePerson], config }
/** Options of routes that ask before they change keys of the workspace of the path. */
export const CHANGE_FORMS = { preHandler: [requirePerson, requireManager], config }
/** Options of routes that change keys of the workspace of the path. */
export const CHANGES = { preHandler: [requirePersonOfForm, requireManager], config }
