/** The ledger and what stands on it, over a database that lives as long as the test. */
import { Layer } from "effect"
import * as Migrations from "../../src/layers/Migrations.ts"
import * as NodeDigest from "../../src/layers/NodeDigest.ts"
import * as Sqlite from "../../src/layers/Sqlite.ts"
import { Ledger } from "../../src/services/Ledger.ts"
import { ServerIdentity } from "../../src/services/ServerIdentity.ts"
import { Store } from "../../src/services/Store.ts"
import { Works } from "../../src/services/Works.ts"

/** A server named `this`; of its neighbours those whose names begin with `gone` have ended. */
export const layerIdentity = Layer.succeed(ServerIdentity, { self: "this", isAlive: (identity) => !identity.startsWith("gone") })

/** In that database, for that server. */
export const layerIn = (database: ReturnType<typeof Sqlite.layer>, identity: Layer.Layer<ServerIdentity> = layerIdentity) =>
  Layer.mergeAll(Store.layer, Works.layer).pipe(
    Layer.provideMerge(Ledger.layer),
    Layer.provideMerge(Migrations.layer),
    Layer.provideMerge(Layer.mergeAll(database, NodeDigest.layer, identity)),
  )

export const layerRecords = layerIn(Sqlite.layerMemory)
