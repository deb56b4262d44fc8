import type { FastifyRequest } from 'fastify'
import { callerOf } from '../../http/request-context.ts'
import { idempotencyOf } from '../../registry/operations/idempotency.ts'
import type { RandomBytes } from '../../registry/operations/ids.ts'
import type { OperationContext } from '../../registry/operations/run-operation.ts'
import { fieldsOf } from '../routes/page-request.ts'
import { textField } from './form-fields.ts'

const ONCE = /^[A-Za-z0-9_-]{22}$/

/** Makes a form that is sent twice, as a browser does on reloading, one request. */
export function newOnceToken(randomBytes: RandomBytes): string {
  return Buffer.from(randomBytes(16)).toString('base64url')
}

/**
 * @param what whatever decides what is done: operation, parameters of the path, what the form says
 * @returns null where the form came without its token, so that sending it twice would do it twice
 */
export function readFormContext(
  request: FastifyRequest,
  what: readonly [operation: 'issue' | 'rotate', parameters: object, form: object],
): OperationContext | null {
  const once = textField(fieldsOf(request), 'once')
  if (!ONCE.test(once)) return null
  const caller = callerOf(request)
  return { caller, idempotency: idempotencyOf(caller.actor, `form:${once}`, what) }
}

/** Said where a form is there again though nothing in it is wrong. */
export const FORM_NOTICES = {
  kept: 'Your session had ended. What you entered is still here: please check it and send it again.',
  reused:
    'This form was sent before with other answers. Nothing was done now: check it and send it again for one more key.',
  incomplete: 'The form did not arrive whole. Nothing was done: please send it again.',
} as const
