import type { FastifyRequest } from 'fastify'
import { idempotencyOf } from '../http/idempotency.ts'
import { callerOf, type OperationContext } from '../http/request-context.ts'
import type { RandomBytes } from '../ids.ts'
import { textField } from './form-fields.ts'
import { fieldsOf } from './page-request.ts'

const ONCE = /^[A-Za-z0-9_-]{22}$/

/** Makes a form that is submitted twice, as by reloading, one request. */
export function newOnceToken(randomBytes: RandomBytes): string {
  return Buffer.from(randomBytes(16)).toString('base64url')
}

/**
 * @param what everything that determines the effect: operation, path parameters, form
 * @returns null without the token: submitting such a form twice would act twice
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

/** Shown when a form without problems is shown again. */
export const FORM_NOTICES = {
  reused:
    'This form was already submitted with other values. Nothing was changed. Submit it again to issue another key.',
  incomplete: 'The form was incomplete. Nothing was changed. Submit it again.',
} as const
