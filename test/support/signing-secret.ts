import { hash } from 'node:crypto'

/** 32 bytes that look random, as the settings require, and are the same in each run. */
export const SIGNING_SECRET = hash('sha256', 'the signing secret of the tests', 'buffer')
