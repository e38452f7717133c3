/*
 * ChaCha20: the test vectors of RFC 8439 (sections 2.3.2, 2.4.2, and appendix A.1 and A.2), and
 * that a stream is the same wherever it is entered.
 */
#include "common/apps/cipher/chacha20.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(chacha20, .timeout = 120);

struct vector {
    const char *section;
    const char *key; /* in hexadecimal digits, as all bytes here */
    const char *nonce;
    uint64_t counter;
    const char *text;   /* "": zeros, so that the stream itself comes out */
    const char *result; /* as many bytes as the text has, or a block */
};

#define ZEROS_16 "00000000000000000000000000000000"
#define ZERO_KEY ZEROS_16 ZEROS_16

/* The RFC's own texts. */
#define SUNSCREEN                                                                                  \
    "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, " \
    "sunscreen would be it."
#define JABBERWOCKY                                                                                \
    "'Twas brillig, and the slithy toves\nDid gyre and gimble in the wabe:\nAll mimsy were the "   \
    "borogoves,\nAnd the mome raths outgrabe."

static const struct vector vectors[] = {
    {"2.3.2", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
     "000000090000004a00000000", 1, "",
     "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
     "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"},
    {"2.4.2", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
     "000000000000004a00000000", 1, SUNSCREEN,
     "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
     "f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8"
     "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
     "5af90bbf74a35be6b40b8eedf2785e42874d"},
    {"A.1 1", ZERO_KEY, "000000000000000000000000", 0, "",
     "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
     "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"},
    {"A.1 2", ZERO_KEY, "000000000000000000000000", 1, "",
     "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
     "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"},
    {"A.1 3", ZEROS_16 "00000000000000000000000000000001", "000000000000000000000000", 1, "",
     "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
     "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"},
    {"A.1 4", "00ff0000000000000000000000000000" ZEROS_16, "000000000000000000000000", 2, "",
     "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
     "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096"},
    {"A.1 5", ZERO_KEY, "000000000000000000000002", 0, "",
     "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
     "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d"},
    {"A.2 3", "1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0",
     "000000000000000000000002", 42, JABBERWOCKY,
     "62e6347f95ed87a45ffae7426f27a1df5fb69110044c0d73118effa95b01e5cf"
     "166d3df2d721caf9b21e5fb14c616871fd84c54f9d65b283196c7fe4f60553eb"
     "f39c6402c42234e32a356b3e764312a61a5532055716ead6962568f87d3f3f77"
     "04c6a8d1bcd1bf4d50d6154b6da731b187b58dfd728afa36757a797ac188d1"},
};

enum { VECTORS = sizeof(vectors) / sizeof(vectors[0]), MOST = 256 };

static size_t bytes_of(const char *digits, unsigned char *bytes)
{
    size_t count = 0;
    unsigned byte;
    for (; sscanf(digits, "%2x", &byte) == 1; digits += 2)
        bytes[count++] = (unsigned char)byte;
    return count;
}

static struct chacha20 stream_of(const struct vector *vector)
{
    struct chacha20 stream;
    unsigned char key[CHACHA20_KEY_SIZE], nonce[CHACHA20_NONCE_SIZE];
    cr_assert_eq(bytes_of(vector->key, key), sizeof(key));
    cr_assert_eq(bytes_of(vector->nonce, nonce), sizeof(nonce));
    chacha20_init(&stream, key, nonce);
    return stream;
}

Test(chacha20, test_vectors_of_the_rfc)
{
    for (const struct vector *vector = vectors; vector < vectors + VECTORS; vector++) {
        const struct chacha20 stream = stream_of(vector);
        uint64_t position = CHACHA20_BLOCK_SIZE * vector->counter;
        unsigned char text[MOST] = {0}, result[MOST], expected[MOST];
        size_t length = bytes_of(vector->result, expected);
        cr_assert(vector->text[0] == '\0' || strlen(vector->text) == length, "%s", vector->section);
        memcpy(text, vector->text, strlen(vector->text));
        chacha20_xor(&stream, position, result, text, length);
        cr_assert_arr_eq(result, expected, length, "%s", vector->section);
        chacha20_xor(&stream, position, result, result, length);
        cr_assert_arr_eq(result, text, length, "%s: back", vector->section);
    }
}

/* In two pieces, cut at each place, and begun in each. */
Test(chacha20, a_stream_is_the_same_wherever_it_is_entered)
{
    const struct chacha20 stream = stream_of(&vectors[0]);
    unsigned char whole[MOST], pieces[MOST], zeros[MOST] = {0};
    chacha20_xor(&stream, 0, whole, zeros, MOST);
    for (size_t cut = 0; cut <= MOST; cut++) {
        chacha20_xor(&stream, cut, pieces + cut, zeros, MOST - cut);
        chacha20_xor(&stream, 0, pieces, zeros, cut);
        cr_assert_arr_eq(pieces, whole, MOST, "cut at %zu", cut);
    }
}

/* The counter does not come back to 0: the last block is another one than the first. */
Test(chacha20, to_the_last_byte)
{
    const struct chacha20 stream = stream_of(&vectors[2]);
    unsigned char first[CHACHA20_BLOCK_SIZE] = {0}, last[CHACHA20_BLOCK_SIZE] = {0};
    chacha20_xor(&stream, 0, first, first, sizeof(first));
    chacha20_xor(&stream, CHACHA20_LENGTH - sizeof(last), last, last, sizeof(last));
    cr_assert_arr_neq(first, last, sizeof(first));
    chacha20_xor(&stream, CHACHA20_LENGTH, last, last, 0);
}
