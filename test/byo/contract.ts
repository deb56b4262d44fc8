import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { expect } from 'vitest'
import { parse } from 'yaml'

/** The published document. */
export const CONTRACT = parse(
  readFileSync(new URL('../../config/key-service-openapi.yaml', import.meta.url), 'utf8'),
) as Record<string, unknown>

const ajv = new Ajv2020({ strict: false, allErrors: true })
ajv.addSchema(CONTRACT, 'contract')

/** A compiled schema of the document. @param pointer such as `/components/schemas/Record` */
export function schemaAt(pointer: string): ValidateFunction {
  return ajv.compile({ $ref: `contract#${pointer}` })
}

export const schema = (name: string) => schemaAt(`/components/schemas/${name}`)

export function expectToFit(judge: ValidateFunction, json: unknown): void {
  const fits = judge(json)
  expect(fits, `${JSON.stringify(json)}: ${ajv.errorsText(judge.errors)}`).toBe(true)
}
