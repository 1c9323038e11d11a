import assert from "node:assert/strict"
import { test } from "node:test"
import { total } from "../src/cart.js"
import { receipt } from "../src/receipt.js"

test("an empty cart costs nothing", () => {
  assert.equal(total([]), 0)
})

test("three apples cost three times as much as one", () => {
  assert.equal(total([{ name: "apple", price: 50, quantity: 3 }]), 150)
})

test("an item without a quantity counts once", () => {
  assert.equal(total([{ name: "melon", price: 300 }]), 300)
})

test("the receipt shows euros", () => {
  const cart = [
    { name: "apple", price: 50, quantity: 3 },
    { name: "melon", price: 300, quantity: 1 },
  ]
  assert.equal(receipt(cart), "2 kinds of fruit, 4.50 €")
})
