import { readFileSync } from 'node:fs'
import { afterAll, describe, expect, it } from 'vitest'
import { certificatesIn, requireAuthorities, requirePair } from '../../src/domain/pem.ts'
import { makeCertificates } from '../support/certificates.ts'

const [one, other] = [makeCertificates(), makeCertificates()]
afterAll(() => {
  for (const certificates of [one, other]) certificates.remove()
})
const text = (file: string) => readFileSync(file, 'utf8')
const broken = '-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n'

describe('files of certificates are looked at before connections depend on them', () => {
  it('a bundle holds as many as it holds', () => {
    expect(certificatesIn(`${text(one.caFile)}# and\n${text(other.caFile)}`)).toHaveLength(2)
  })

  it.each([
    ['nothing', ''],
    ['words', 'none'],
    ['a key', text(one.clientKeyFile)],
    ['a broken one', broken],
  ])('%s in place of an authority is refused by the name of its setting', (_, pem) => {
    expect(() => requireAuthorities(pem, 'redis.caFile')).toThrow(
      'redis.caFile: the file contains no PEM certificate',
    )
    expect(() => requireAuthorities(text(one.caFile), 'redis.caFile')).not.toThrow()
  })

  it('a certificate and a key are of one pair, or refused', () => {
    const certificate = text(one.clientCertFile)
    expect(() => requirePair(certificate, text(one.clientKeyFile), 'x')).not.toThrow()
    expect(() => requirePair(certificate, text(other.clientKeyFile), 'x')).toThrow(
      'x: the private key does not match',
    )
    expect(() => requirePair(certificate, 'none', 'x')).toThrow('x: the key file contains no PEM private key')
    expect(() => requirePair(broken, text(one.clientKeyFile), 'x')).toThrow(
      'x: the file contains no PEM certificate',
    )
  })
})
