import { testFarRegions } from './far-regions.contract.ts'

/** Each fault comes to one region; in `npm run qualify`, to each. */
testFarRegions({ keys: 40, unannounced: ['ap'], cutOff: ['us'] })
